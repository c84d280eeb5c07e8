"""Limits of the amount of a report that is in memory at a time."""

# Bytes of columns in a slice, about: two are in memory, one that is worked on and the next. Each slice costs some 0.3 s
# however little it holds: half as large, ten times the long report took a quarter longer, for 40 MB less memory.
SLICE_BYTES = 64_000_000
# Bytes of columns that are worked on whole, which is quicker.
WHOLE_BYTES = 96_000_000
# Bytes of columns of a table that are read at a time.
PIECE_BYTES = 16_000_000
# Bytes of a value.
WORD = 8
