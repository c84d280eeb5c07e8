"""The stages that make a trace: extract, match, encode, write; what lies between them (`store`); and the workers."""
