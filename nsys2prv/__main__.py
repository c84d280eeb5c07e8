"""`python -m nsys2prv`: the command line, where its script is not in the PATH."""

from nsys2prv.cli.script import script

if __name__ == "__main__":
    script()
