"""Many runs, each translated into a trace of its own."""
