"""Answers to questions about a capture: tables in, columns out, nothing else read or written.

A result is a dict of columns of one length: int64 arrays (−1: nobody measured it), float64 arrays of shares, and object
arrays of texts.
``self_*`` is what belongs to the row alone; the column without the prefix includes what it called or enclosed.
"""

from pillion.analysis.devices import devices, kernels, launches
from pillion.analysis.functions import functions
from pillion.analysis.ranges import ranges
from pillion.analysis.threads import processes, threads
from pillion.analysis.waits import waits

__all__ = ["devices", "functions", "kernels", "launches", "processes", "ranges", "threads", "waits"]
