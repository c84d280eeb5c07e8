"""The stages that make a trace: extract, store, encode, write; and the workers that run them."""
