"""The version of nsys2prv."""

VERSION = "0.1.0"
