"""The files beside the body of a trace: PCF, ROW, and the alignment of the clocks."""

from __future__ import annotations

import json
from pathlib import Path

from nsys2prv.model.event_types import EFFICIENCY_FACTOR, NOTHING, TENSOR_ESTIMATE, WAITED_FOR, WAITING, WINDOW
from nsys2prv.model.states import STATES
from nsys2prv.paraver.labels import PcfType, pcf_text
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.pipeline.write.files import Target
from nsys2prv.pipeline.write.redact import Redaction


def side_files(encoding: EncodingInput, target: Target, redaction: Redaction | None) -> dict[Path, str]:
    """Return the text of each file by its path, without what `redaction` removes."""
    plan = encoding.plan
    types, row, alignment = _event_types(encoding), plan.row, plan.alignment
    if redaction is not None:
        types, row, alignment = redaction.types(types), redaction.text(row), redaction.alignment(alignment)
    with_states = any(spill.kind == "states" for summary in plan.summaries for spill in summary.spills)
    return {
        target.pcf: pcf_text(types, STATES if with_states else None),
        target.row: row,
        target.alignment: json.dumps(alignment.to_json(), indent=2) + "\n",
    }


def _event_types(encoding: EncodingInput) -> list[PcfType]:
    """Return the event types of the PCF: those of the reports, then those of the whole run."""
    plan = encoding.plan
    event_types = [*plan.numbering.pcf, *(event_type for one in encoding.run_events for event_type in one.event_types)]
    if encoding.estimates is not None and encoding.estimates.kernels > 0:
        event_types.append(PcfType(TENSOR_ESTIMATE.number, TENSOR_ESTIMATE.label, {}, TENSOR_ESTIMATE.precision))
    if encoding.matches.waiting:
        ranks = {n: f"rank {t.rank}" if t.rank is not None else t.label for n, t in enumerate(plan.tasks, start=1)}
        event_types.append(PcfType(WAITING.number, WAITING.label, {0: WAITING.ended, **WAITING.values}))
        event_types.append(PcfType(WAITED_FOR.number, WAITED_FOR.label, {0: WAITED_FOR.ended, **ranks}))
    event_types.append(PcfType(WINDOW.number, WINDOW.label, {0: "outside", **WINDOW.values}))
    factors = {0: EFFICIENCY_FACTOR.ended, **EFFICIENCY_FACTOR.values}
    event_types.append(PcfType(EFFICIENCY_FACTOR.number, EFFICIENCY_FACTOR.label, factors))
    event_types.append(PcfType(NOTHING.number, NOTHING.label))
    return event_types
