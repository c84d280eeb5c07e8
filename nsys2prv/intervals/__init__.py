"""The algebra of intervals: spans, nesting, lanes, kernel classes, reductions."""
