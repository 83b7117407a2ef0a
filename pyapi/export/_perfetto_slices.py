"""Events, activities and waits as slices of a Perfetto trace.

Names beside the numbers are those of the fields of TrackEvent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pillion._tables import Array, Labels, Tables, column, length
from pillion.analysis.waits import stack_reasons
from pillion.export._details import activity_details, event_details
from pillion.export._links import backward_passes, launches
from pillion.export._perfetto_fields import Annotations, Fields, callstacks, flows
from pillion.export._perfetto_packets import CATEGORIES, EVENT_NAMES
from pillion.export._protobuf import integer, integers, messages
from pillion.export._rows import Dictionary, chunks, joined, only, pick, words
from pillion.export._tracks import brackets, lanes
from pillion.model.tree import is_async
from pillion_probes.layout import CONSTANTS

if TYPE_CHECKING:
    from pillion.export._perfetto_packets import Packets
    from pillion.export._perfetto_tracks import Tracks
    from pillion.export._rows import Piece

_TYPES = words([integer(9, kind) for kind in (1, 2, 3)])  # the field type
_BEGIN, _END, _INSTANT = range(3)  # their places there
_FLOW_IDS, _TERMINATING_FLOW_IDS = 47, 48
_BACKWARD_FLOWS = 1 << 32  # above the numbers of flows to activities


def write_events(tables: Tables, packets: Packets, tracks: Tracks) -> None:
    """Ranges, operators and calls as slices of their threads, marks as instants."""
    events = tables["events"]
    pid, tid, start = events["pid"], events["tid"], events["start_ns"]
    end = np.maximum(start, events["end_ns"])
    is_mark = events["kind"] == CONSTANTS["PLN_MARK"]
    is_crossing = is_async(events) & ~is_mark
    writer = _event_writer(tables, packets)

    rows = np.flatnonzero(~is_mark & ~is_crossing)
    track = tracks.threads(pid[rows], tid[rows])
    lane = lanes(track, start[rows], end[rows])
    apart = np.flatnonzero(lane)
    track[apart] = tracks.below_threads(pid[rows[apart]], tid[rows[apart]], lane[apart], "overlapping")
    writer.slices(rows, track, start[rows], end[rows])

    rows = np.flatnonzero(is_crossing)
    track = tracks.below_processes(pid[rows], lanes(pid[rows], start[rows], end[rows]), "async")
    writer.slices(rows, track, start[rows], end[rows])

    rows = np.flatnonzero(is_mark)
    writer.instants(rows, tracks.threads(pid[rows], tid[rows]), start[rows])


def _event_writer(tables: Tables, packets: Packets) -> _Writer:
    events = tables["events"]
    count = length(events)
    calls, passes = launches(tables), backward_passes(events)
    passing = _BACKWARD_FLOWS + np.arange(len(passes.source))
    fields = [
        callstacks(column("events", events, "stack")),
        # A flow of its own for each activity: one flow would lead from activity to activity.
        flows(_FLOW_IDS, calls.source, np.arange(1, len(calls.source) + 1), count),
        flows(_FLOW_IDS, passes.source, passing, count),
        flows(_TERMINATING_FLOW_IDS, passes.target, passing, count),
    ]
    details = [detail for detail in event_details(tables) if detail.key != "Call stack"]
    names = tables["strings"]["text"], events["name"]
    return _Writer(packets, *names, column("events", events, "category"), Annotations(packets, details), fields)


def write_activities(tables: Tables, packets: Packets, tracks: Tracks) -> None:
    """Work of devices as slices of their streams, to which flows lead from their launches."""
    activities = tables["activities"]
    start = activities["start_ns"]
    end = np.maximum(start, activities["end_ns"])
    links = launches(tables)
    arrivals = flows(_TERMINATING_FLOW_IDS, links.target, np.arange(1, len(links.target) + 1), len(start))
    names = tables["strings"]["text"], activities["name"]
    writer = _Writer(packets, *names, activities["kind"], Annotations(packets, activity_details(tables)), [arrivals])
    track = tracks.streams(activities["device"], activities["stream"], start, end)
    writer.slices(np.arange(len(start)), track, start, end)


def write_waits(tables: Tables, packets: Packets, tracks: Tracks) -> None:
    """Waits as slices of a track below that of their thread, named for what was waited for."""
    waits = tables["waits"]
    start = waits["start_ns"]
    end = np.maximum(start, waits["end_ns"])
    kind = Labels(np.zeros(len(start), np.int32), ("wait",))
    stacks = callstacks(waits["stack"])
    writer = _Writer(packets, stack_reasons(tables), waits["stack"], kind, Annotations(packets, []), [stacks])
    thread = tracks.threads(waits["pid"], waits["tid"])
    track = tracks.below_threads(waits["pid"], waits["tid"], lanes(thread, start, end), "waits")
    writer.slices(np.arange(len(start)), track, start, end)


class _Writer:
    """Writes rows of a table as slices and instants.

    Args:
        texts, names: of each row the place of its name among the texts.
        kinds: the category of each row.
        annotations, fields: what else is known of a row.
    """

    def __init__(
        self,
        packets: Packets,
        texts: Any,
        names: Array,
        kinds: Labels,
        annotations: Annotations,
        fields: list[Fields],
    ) -> None:
        self._packets = packets
        self._name, self._kind = names, kinds.codes
        self._annotations, self._fields = annotations, fields
        iids = packets.intern(EVENT_NAMES, [texts[place] for place in np.unique(names).tolist()])
        self._names = Dictionary(texts, [names], lambda text: integer(10, iids[text]))  # name_iid
        categories = packets.intern(CATEGORIES, kinds.texts)
        self._kinds = words([integer(3, categories[text]) for text in kinds.texts])  # category_iids

    def slices(self, rows: Array, track: Array, start_ns: Array, end_ns: Array) -> None:
        """Write slices that nest on their tracks."""
        point, is_end = brackets(track, start_ns, end_ns)
        time_ns = np.where(is_end, end_ns[point], start_ns[point])
        self._write(rows[point], track[point], time_ns, np.where(is_end, _END, _BEGIN))

    def instants(self, rows: Array, track: Array, time_ns: Array) -> None:
        """Write instants."""
        self._write(rows, track, time_ns, np.full(len(rows), _INSTANT))

    def _write(self, rows: Array, track: Array, time_ns: Array, kind: Array) -> None:
        for part in chunks(self._annotations.sizes(rows)):
            described = self._described(rows[part], kind[part] != _END)
            event = messages(11, pick(_TYPES, kind[part]), integers(11, track[part]), described)  # track_uuid
            self._packets.rows(time_ns[part], *event)  # track_event

    def _described(self, rows: Array, begins: Array) -> Piece:
        pieces: list[Piece] = [pick(self._kinds, self._kind[rows]), self._names.pick(self._name[rows])]
        pieces += self._annotations.of(rows)
        pieces += [fields(rows) for fields in self._fields]
        return only(begins, joined(*pieces))
