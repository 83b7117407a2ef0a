"""Captures from the profiles of other tools, one module for each format."""

from pillion.importers.profile_file import import_trace

__all__ = ["import_trace"]
