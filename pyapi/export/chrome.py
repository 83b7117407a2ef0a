"""A trace in Kineto's dialect of Chrome's JSON, for chrome://tracing, Perfetto and the readers of torch's traces.

Events are slices on their thread's track, with Kineto's categories and ``args``; a range that ended on another thread
is an async pair, since a track's slices must nest. Work of devices has the device as its process and the stream as its
thread; flows (``ac2g``, ``fwdbwd``) lead to it from its launch, and from an operator to its backward pass. What Kineto
does not know: a wait is a slice below the range in which it happened, a sample is an instant; both refer to
``stackFrames`` with ``sf``, as events with stacks do. Times are microseconds since ``baseTimeNanoseconds``, which is
wall-clock time. Importing it gives the capture back: what that takes beyond Kineto's keys is in ``_chrome_own``.

The layout is that of torch 2.13's export_chrome_trace and, for stacks, of the Trace Event Format (stackFrames).
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pillion._errors import CaptureError
from pillion._tables import Tables
from pillion.export._chrome_activities import write_activities
from pillion.export._chrome_events import write_events
from pillion.export._chrome_own import TABLES, tables_member
from pillion.export._chrome_places import write_names
from pillion.export._chrome_samples import write_samples, write_waits
from pillion.export._file import binary_output
from pillion.export._json_pieces import integers, picked
from pillion.export._json_rows import Elements, quoted
from pillion.export._rows import words
from pillion.export._stack_tree import StackTree, stack_tree

if TYPE_CHECKING:
    from pillion._capture import Capture

# Members of a trace that are written anew, whatever an imported one had.
_OWN = ("traceEvents", "stackFrames", "pillion", TABLES, "losses")


def write_chrome_trace(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write the trace; gzipped where the path ends in ``.gz``.

    Raises:
        OSError: the file cannot be written.
        CaptureError: what the capture says of itself cannot be written as JSON.
    """
    tables, start_ns = capture.columns, capture.meta["start_ns"]
    try:
        head = json.dumps(_head(capture, path), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CaptureError(f"cannot write {os.fspath(path)}", f"the capture's meta: {error}") from error
    tree = stack_tree(tables["stacks"]["frames"])
    with binary_output(path) as file:
        file.write(head[:-1].encode())
        file.write(b',\n"stackFrames": {')
        _write_stack_frames(file, tables, tree)
        file.write(b'},\n"traceEvents": [')
        elements = Elements(file)
        write_names(elements, tables, capture.meta)
        write_events(elements, tables, start_ns, tree)
        write_activities(elements, tables, start_ns)
        write_waits(elements, tables, start_ns, tree)
        write_samples(elements, tables, start_ns, tree)
        file.write(b"\n]}\n")


def _head(capture: Capture, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Everything but the events: what the trace that was imported said, what the user added, what Kineto says."""
    meta, losses = capture.meta, capture.columns["losses"]
    identity = json.dumps([meta.get(key) for key in ("host", "start_ns", "pids", "realtime_offset_ns")])
    known = {
        "deviceProperties": [_device(device) for device in meta.get("devices", ())],
        "distributedInfo": {"rank": 0, "world_size": 1},
        "trace_id": meta.get("trace_id") or hashlib.sha256(identity.encode()).hexdigest()[:32].upper(),
        **{key: value for key, value in meta.get("trace", {}).items() if key not in _OWN},
        **meta.get("trace_metadata", {}),
    }
    lost = np.flatnonzero(losses["count"]).tolist()
    return {
        **known,
        "schemaVersion": 1,
        "host_name": str(meta.get("host", "")),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": meta["start_ns"] + meta["realtime_offset_ns"],
        "traceName": os.fspath(path),
        # What an imported trace said is among the members; which they are is what is left to say.
        "pillion": {key: sorted(value) if key == "trace" else value for key, value in meta.items()},
        TABLES: tables_member(capture.columns),
        "losses": [{key: losses[key].tolist()[row] for key in losses} for row in lost],
    }


def _device(device: dict[str, Any]) -> dict[str, Any]:
    """What is known of a device, its memory under Kineto's key."""
    keys = {"memory_bytes": "totalGlobalMem"}
    return {keys.get(key, key): value for key, value in device.items() if value is not None}


def _frame(name: str, kind: str, file: str, line: int, module: str) -> bytes:
    """The members of a frame but its caller."""
    known = {"file": file, "line": line, "module": module}
    rest = b"".join(b"," + quoted(key) + b":" + json.dumps(value).encode() for key, value in known.items() if value)
    return b'{"name":' + quoted(name) + b',"category":' + quoted(kind) + rest


def _write_stack_frames(file: IO[bytes], tables: Tables, tree: StackTree) -> None:
    """The tree of stacks; a node's key is its number."""
    frames = tables["frames"]
    texts = zip(*(frames[key].tolist() for key in ("name", "kind", "file", "line", "module")))
    named = words([_frame(*row) for row in texts])
    Elements(file).write_rows(
        len(tree.frame),
        integers(b',\n"', np.arange(len(tree.frame)), after=b'":'),
        picked(named, tree.frame),
        integers(b',"parent":"', tree.parent, silent=-1, after=b'"'),
        b"}",
    )
