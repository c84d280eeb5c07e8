"""Databases of nvprof (`.nvprof`, `.nvvp`), read through views that have the tables and columns of an nsys export."""
