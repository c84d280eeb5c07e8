"""`python -m nsys2prv.paraver.cfg` writes the package's cfgs anew."""

from __future__ import annotations

from nsys2prv.paraver.cfg import write_all

write_all()
