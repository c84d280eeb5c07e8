"""The files beside the body of a trace: PCF, ROW, and the alignment of the clocks."""

from __future__ import annotations

import json
from pathlib import Path

from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.pipeline.write.files import Target
from nsys2prv.pipeline.write.redact import Redaction
from nsys2prv.run.plan import pcf_of


def side_files(given: EncodingInput, target: Target, redaction: Redaction | None) -> dict[Path, str]:
    """Return the text of each file by its path, without what `redaction` removes."""
    plan = given.plan
    estimates = given.estimates is not None and given.estimates.kernels > 0
    pcf = pcf_of(plan, estimates, bool(given.matches.waiting), [kind for one in given.explained for kind in one.kinds])
    row, clocks = plan.row, plan.alignment.to_json()
    if redaction is not None:
        pcf, row, clocks = redaction.text(pcf), redaction.text(row), redaction.values(clocks)
    return {target.pcf: pcf, target.row: row, target.alignment: json.dumps(clocks, indent=2) + "\n"}
