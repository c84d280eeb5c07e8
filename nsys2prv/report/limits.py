"""How much of a report is in memory at a time."""

# Bytes of columns in a slice, about: two are in memory, one that is worked on and the next. What fits into so many
# slices is worked on whole, which is quicker.
SLICE_BYTES = 32_000_000
WHOLE = 3
# Bytes of columns of a table that are read at a time.
PIECE_BYTES = 16_000_000
# Bytes of a value.
WORD = 8
