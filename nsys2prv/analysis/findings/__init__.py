"""Findings: conclusions from an analysis, each with its cost, evidence and advice.

A module for each rule, which has the name of the finding that it makes, beside `finding` and `rules`, which runs them
all. A module that makes several findings names them in its docstring.
"""
