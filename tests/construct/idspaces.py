"""The number spaces by which rows of one report point at each other, and how to move a row to numbers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .report import CALLCHAINS, SAMPLE_CHAINS, Report, Table, quoted

NO_NUMBER = "(0, 4294967295)"  # what the reports write where there is no partner


@dataclass(frozen=True)
class Space:
    """Columns, in any table or in one named as TABLE.column, that hold numbers of one kind."""

    columns: frozenset[str]

    def of(self, table: Table) -> list[str]:
        return [c for c in table.columns if c in self.columns or f"{table.name}.{c}" in self.columns]


CORRELATION = Space(frozenset({"correlationId"}))
EVENT_SYNC = Space(frozenset({"eventSyncId"}))
EVENT = Space(frozenset({"eventId"}))
RANGE = Space(frozenset({"rangeId"}))
GRAPH = Space(frozenset({"graphId", "originalGraphId", "graphExecId"}))
GRAPH_NODE = Space(frozenset({"graphNodeId", "originalGraphNodeId"}))
SAMPLE = Space(frozenset({"COMPOSITE_EVENTS.id", f"{SAMPLE_CHAINS}.id"}))
CALLCHAIN = Space(frozenset({"callchainId", *(f"{name}.id" for name in CALLCHAINS)}))

OF_ONE_TURN = (CORRELATION, EVENT_SYNC, RANGE, GRAPH, GRAPH_NODE, SAMPLE)
OF_ONE_PROCESS = (*OF_ONE_TURN, EVENT, CALLCHAIN)


def span(report: Report, tables: Mapping[str, Table], space: Space) -> int:
    """A step by which numbers of the space can be moved to be unlike all that are there."""
    highest = 0
    for table in tables.values():
        for column in space.of(table):
            top = f'SELECT max("{column}") FROM "{table.name}" WHERE "{column}" NOT IN {NO_NUMBER}'
            highest = max(highest, report.value(top) or 0)
    return highest + 1


def steps(report: Report, spaces: tuple[Space, ...]) -> dict[Space, int]:
    tables = report.tables()
    return {space: span(report, tables, space) for space in spaces}


def moved(table: Table, by: Mapping[Space, int], times: str = "1") -> dict[str, str]:
    """For each column that holds such numbers, the SQL expression of the number moved by its space's step."""
    terms = {}
    for space, step in by.items():
        for column in space.of(table):
            name = quoted(column)
            terms[column] = f"CASE WHEN {name} IN {NO_NUMBER} THEN {name} ELSE {name} + {step} * {times} END"
    return terms
