"""What if: the dependency graph replayed with other lengths."""
