"""Opening and reading one report: formats, schema versions, who and where it ran. Knows nothing of Paraver."""

from nsys2prv.report.report import Report, open_report

__all__ = ["Report", "open_report"]
