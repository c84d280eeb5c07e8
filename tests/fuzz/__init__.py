"""Small reports, broken at random, translated: nothing may come of one but a right trace, or a line that says why not.

`python tests/fuzz` runs it at length; every case is made again by its number (`--first N --runs 1`).
"""
