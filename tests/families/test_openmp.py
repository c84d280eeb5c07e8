"""OpenMP regions: one event type a kind."""

from pathlib import Path

from exports import MAIN, Drawn, export, real, tid

PARALLEL, TASK, EVENT, WAITING = 70000006, 70000241, 70000246, 70000244


def test_kinds_hold_each_other_from_documentation(tmp_path: Path) -> None:
    columns = "start end globalTid nameId"
    drawn = Drawn(
        export(
            tmp_path / "openmp.sqlite",
            OPENMP_EVENT_KIND_PARALLEL=(columns, [(1000, 2000, MAIN, "Parallel")]),
            OPENMP_EVENT_KIND_TASK=(
                columns,
                [(1000, 1900, MAIN, "Implicit task"), (1100, 1300, MAIN, "Task"), (1000, 1900, tid(101), "Task")],
            ),
            OPENMP_EVENT_KIND_TASK_SCHEDULE=(columns, [(1050, 1050, MAIN, "Task schedule")]),
            OPENMP_EVENT_KIND_SYNC_REGION_WAIT=(columns, [(1800, 1900, MAIN, "Wait"), (1800, 1900, None, "Wait")]),
            OPENMP_EVENT_KIND_FLUSH=(columns, [(1060, 1060, MAIN, None)]),
        ),
        "openmp",
    )
    main, other = "thread 100", "thread 101"
    assert drawn.intervals(PARALLEL) == [(main, 1000, 2000, "Parallel")]
    assert drawn.intervals(TASK) == [
        (main, 1000, 1900, "Implicit task"),
        (main, 1100, 1300, "Task"),
        (other, 1000, 1900, "Task"),
    ]
    assert drawn.intervals(EVENT) == [(main, 1050, 1051, "Task schedule"), (main, 1060, 1061, "(unnamed)")]
    assert drawn.intervals(WAITING) == [(main, 1800, 1900, "Wait")]
    assert drawn.dropped("openmp") == {"without a thread": 1}


def test_regions_of_a_real_program(tmp_path: Path) -> None:
    """40 parallel regions, 160 task creations; one row a thread: nothing crosses."""
    drawn = Drawn(real("single/openmp", tmp_path), "openmp")
    assert len(drawn.intervals(PARALLEL)) == 40
    assert len(drawn.intervals(EVENT)) == 160
    assert len(drawn.trace.names["THREAD"]) == 4
