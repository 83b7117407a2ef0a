"""How far apart the samples of a profile are that does not say it."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array


def usual_gap_ns(pid: Array, tid: Array, time_ns: Array) -> int:
    """The median distance of two samples of one thread, 0 where none has two."""
    order = np.lexsort((time_ns, tid, pid))
    same = (pid[order][1:] == pid[order][:-1]) & (tid[order][1:] == tid[order][:-1])
    gaps = np.diff(time_ns[order])[same]
    gaps = gaps[gaps > 0]
    return int(np.median(gaps)) if len(gaps) else 0
