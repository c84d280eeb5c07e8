"""The command line: one module a command, without logic of its own.

Options stand where their values are used, declared once each: `families/selection.py`, `run/options.py`,
`pipeline/workers/execution.py`, `pipeline/write/trace_output.py`, `analysis/question.py`.
"""
