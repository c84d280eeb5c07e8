"""Families of activities, one module each: tables and relations in, frames out."""
