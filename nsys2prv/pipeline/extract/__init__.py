"""Extract: one report in, its points spilled, a summary out."""
