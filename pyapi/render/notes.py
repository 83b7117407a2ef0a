"""The lines under every table: what was measured, what was sampled, what was lost, what it cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pillion._tables import length
from pillion.render.units import count, cut, percent, seconds, size

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

# Losses whose name says little.
_WORDS = {
    "device_records": "GPU activities that the driver dropped, or that came in no known form",
    "held_back": "processes that ended (killed, by _exit or exec), or were left to another recording, before they "
    "handed over what their GPUs did last: 500 ms of it at most",
    "no_region": "processes without shared memory for their ranges, by the limits that they have",
    "ring_full_activities": "GPU activities that found their ring full",
    "unknown_activities": "GPU activities of kinds that this version does not know",
    "doubtful_launches": "calls into CUDA that share their number: which of them launched what is unsure",
}
_NOTICE_WIDTH = 600  # a reason and what to do about it; the text is a job's


def losses(capture: Capture) -> dict[str, int]:
    """Loss kind to count, summed over threads; 0 for what was watched and not lost. Sorted."""
    counts = dict.fromkeys(LOSS_KINDS, 0)
    table = capture.columns["losses"]
    for kind, lost in zip(table["kind"].tolist(), table["count"].tolist()):
        counts[kind] = counts.get(kind, 0) + lost
    return dict(sorted(counts.items()))


def capture_notes(capture: Capture) -> list[str]:
    """What was measured and sampled, what is missing and why, what it cost; a line each."""
    said = [*_unavailable(capture), *_notices(capture)]
    return [_measured(capture), *said, _lost(capture), *_lost_in_words(capture), *_cost(capture)]


def _unavailable(capture: Capture) -> list[str]:
    """Why processes have no Python stacks; a line for each reason."""
    processes = capture.columns["processes"]
    reasons = Counter(dict(zip(processes["pid"].tolist(), processes["python_unavailable"].tolist())).values())
    return [
        f"no Python stacks of {_counted(number, 'process')}: {reason}" for reason, number in reasons.items() if reason
    ]


def _notices(capture: Capture) -> list[str]:
    """What the sources in the jobs have to say; a line for each text, with its processes."""
    clocks: dict[str, int] = {}
    pids: dict[str, list[int]] = {}
    for notice in capture.meta.get("notices", ()):
        source, value = str(notice["source"]), int(notice["value"])
        if notice["kind"] == "clock":
            clocks[source] = max(clocks.get(source, 0), value)
        else:
            pids.setdefault(str(notice["text"]), []).append(int(notice["pid"]))
    lines = [f"{'GPU' if source == 'CUDA' else source} times ±{seconds(value)}" for source, value in clocks.items()]
    return [cut(line, _NOTICE_WIDTH) for line in [*lines, *(f"{_processes(of)}: {text}" for text, of in pids.items())]]


def _processes(pids: list[int]) -> str:
    if len(pids) == 1:
        return f"process {pids[0]}"
    more = f" and {len(pids) - 3:,} more" if len(pids) > 3 else ""
    return f"processes {', '.join(map(str, pids[:3]))}{more}"


def _measured(capture: Capture) -> str:
    meta, columns = capture.meta, capture.columns
    ranges = f"{_counted(length(columns['events']), 'range')} measured"
    if meta["collector"] == "import":
        rows = ((columns["activities"], "activity"), (columns["samples"], "sample"), (columns["waits"], "wait"))
        found = [
            ranges.removesuffix(" measured"),
            *(_counted(length(table), noun) for table, noun in rows if length(table)),
        ]
        return f"{', '.join(found)}, imported from {meta['file']} ({meta['source']})"
    is_memory = columns["activities"]["kind"].isin("memory")  # torch tells of that of the host as well
    for number, noun in ((int((~is_memory).sum()), "GPU activity"), (int(is_memory.sum()), "memory record")):
        ranges += f", {_counted(number, noun)}" if number else ""
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


def _lost_in_words(capture: Capture) -> list[str]:
    lost = losses(capture)
    return [f"  {kind}: {words}" for kind, words in _WORDS.items() if lost.get(kind)]


def _cost(capture: Capture) -> list[str]:
    cost = capture.meta.get("cost", {})
    try:
        share = cost["cpu_ns"] / cost["wall_ns"] if cost["wall_ns"] else 0.0
        return [f"cost: the agent used {percent(share)} of one CPU and {size(cost['rss_bytes'])} of memory"]
    except (KeyError, TypeError):
        return []
