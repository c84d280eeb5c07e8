"""The nouns that all packages share: event types, frames, numbers of places and labels, losses, options, limits."""
