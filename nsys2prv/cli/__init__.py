"""The command line: one module a command, without logic of its own.

Options that Python has, too, are declared once, with the parameters that they set: `families/selection.py`,
`run/run_options.py`, `pipeline/workers/execution.py`, `pipeline/write/trace_output.py`, `analysis/question.py`. The
others stand in the module of their command.
"""
