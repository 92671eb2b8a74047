"""Listings for people: tables that fit the terminal.

Answers: which columns of a listing have room, and how the cells of the others are shortened, so that no line is longer
than the terminal is wide and no number is broken (`table_lines`).

Never asks a head, and knows no message: cells are text.
"""

from grainlike.cli.listings._table import table_lines

__all__ = ["table_lines"]
