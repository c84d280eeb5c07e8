"""Findings: conclusions from an analysis, each with its cost, evidence and advice."""
