"""Everything that needs more than one report: clocks, objects, labels, matching."""
