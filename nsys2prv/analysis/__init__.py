"""Answers about a whole run: a folder for each subject, a module for each question. Frames in, tables out."""
