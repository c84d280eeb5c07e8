"""The page: one self-contained file of an analysis, made to be sent."""
