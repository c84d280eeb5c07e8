"""Many runs, each into a trace of its own."""
