"""From a spool to the tables of a capture."""

from pillion.merge.tables import merge

__all__ = ["merge"]
