"""Families of activities, one module each: tables in, frames out."""
