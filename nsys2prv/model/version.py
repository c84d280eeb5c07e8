"""The version of nsys2prv."""

VERSION = "1.0.0"
