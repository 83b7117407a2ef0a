"""The lines under every table: what was measured, what was sampled, what was lost, what it cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pillion._tables import length
from pillion.render.units import count, percent, seconds, size

if TYPE_CHECKING:
    from pillion._capture import Capture

# Every kind that a reader can rely on to find; a collector may add others.
LOSS_KINDS = (
    "no_ring",
    "no_string_room",
    "ring_full",
    "samples",
    "spool_corrupt",
    "spool_truncated",
    "stacks",
    "unfinished",
    "waits",
)


def losses(capture: Capture) -> dict[str, int]:
    """Loss kind to count, summed over threads; 0 for what was watched and not lost. Sorted."""
    counts = dict.fromkeys(LOSS_KINDS, 0)
    table = capture.columns["losses"]
    for kind, lost in zip(table["kind"].tolist(), table["count"].tolist()):
        counts[kind] = counts.get(kind, 0) + lost
    return dict(sorted(counts.items()))


def capture_notes(capture: Capture) -> list[str]:
    """What was measured and sampled, what was lost, what it cost; a line each."""
    return [_measured(capture), *_unavailable(capture), _lost(capture), *_cost(capture)]


def _unavailable(capture: Capture) -> list[str]:
    """Why processes have no Python stacks; a line for each reason."""
    processes = capture.columns["processes"]
    reasons = Counter(dict(zip(processes["pid"].tolist(), processes["python_unavailable"].tolist())).values())
    return [
        f"no Python stacks of {_counted(number, 'process')}: {reason}" for reason, number in reasons.items() if reason
    ]


def _measured(capture: Capture) -> str:
    meta, columns = capture.meta, capture.columns
    ranges = f"{_counted(length(columns['events']), 'range')} measured"
    if meta["collector"] == "import":
        rows = ((columns["activities"], "activity"), (columns["samples"], "sample"))
        found = [
            ranges.removesuffix(" measured"),
            *(_counted(length(table), noun) for table, noun in rows if length(table)),
        ]
        return f"{', '.join(found)}, imported from {meta['file']} ({meta['source']})"
    if meta["collector"] == "self":
        why = str(meta.get("samples_unavailable") or "none was asked").partition(";")[0]
        return f"{ranges}; ranges only: no agent ({why}); samples and waits need `pillion agent start`"
    if not meta["rate_hz"]:
        return f"{ranges}, {_counted(length(columns['waits']), 'wait')}; no sampling was asked for"
    threshold = seconds(meta["wait_threshold_ns"])
    return (
        f"{ranges}, {_counted(length(columns['samples']), 'sample')} at {meta['rate_hz']} Hz, "
        f"{_counted(length(columns['waits']), 'wait')} of {threshold} or longer"
    )


def _counted(number: int, noun: str) -> str:
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count(number)} {noun if number == 1 else plural}"


def _lost(capture: Capture) -> str:
    lost = ", ".join(f"{number:,} {kind}" for kind, number in losses(capture).items() if number)
    recovered = "; recovered from a recording that did not finish" if capture.meta.get("recovered") else ""
    return f"lost: {lost or 'nothing'}{recovered}"


def _cost(capture: Capture) -> list[str]:
    cost = capture.meta.get("cost", {})
    try:
        share = cost["cpu_ns"] / cost["wall_ns"] if cost["wall_ns"] else 0.0
        return [f"cost: the agent used {percent(share)} of one CPU and {size(cost['rss_bytes'])} of memory"]
    except (KeyError, TypeError):
        return []
