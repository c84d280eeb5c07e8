"""Extract, plan, match, encode, and where they run."""
