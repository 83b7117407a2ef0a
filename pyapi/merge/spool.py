"""Reads a spool: the append-only file of blocks that a collector writes for a client.

The bytes are untrusted and may end anywhere. What is whole is returned; what is not is counted, with its place. The
layouts are pillion.h's.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from pillion._errors import CaptureError
from pillion_probes.layout import CONSTANTS, STRUCTS


def _dtype(struct: str) -> np.dtype[np.void]:
    spec: Any = STRUCTS[struct].dtype_spec()
    dtype: np.dtype[np.void] = np.dtype(spec)
    return dtype


BLOCK_DTYPE = _dtype("pln_block")
RANGE_DTYPE = _dtype("pln_range")
ACTIVITY_DTYPE = _dtype("pln_activity")
SAMPLE_DTYPE = _dtype("pln_sample")

_RECORD_SIZE = CONSTANTS["PLN_RECORD_SIZE"]
_NAME_MAX = CONSTANTS["PLN_NAME_MAX"]

# The key of each type of JSON object: a later object with the same key replaces an earlier one.
_OBJECT_KEYS: dict[str, tuple[str, ...]] = {
    "meta": (),
    "process": ("pid", "start_ns"),
    "thread": ("pid", "tid"),
    "region": ("region",),
    "frame": ("id",),
    "stack": ("id",),
    "loss": ("kind", "pid", "tid"),
    "end": (),
}

JsonObject = dict[str, Any]
StructArray = np.ndarray[Any, np.dtype[np.void]]


class Dropped(NamedTuple):
    """Something of the spool that could not be used.

    ``kind`` is "spool_truncated" (everything from the place on, ``lost`` in bytes) or "spool_corrupt" (``lost`` in
    blocks, objects or strings).
    """

    kind: str
    lost: int
    place: str


class RecordBlock(NamedTuple):
    """Records as a region's rings held them.

    ``region`` is the collector's number, ``pid`` the collector's view, ``records`` a structured array of RANGE_DTYPE.
    """

    region: int
    pid: int
    records: StructArray


@dataclass
class Spool:
    """The whole blocks of a spool.

    Attributes:
        records: in the order in which they were written.
        samples: structured arrays of SAMPLE_DTYPE, one a block.
        string_logs: region to the stretches of its string log that are known: the place of each, and its bytes.
        region_pids: region to the pid in the headers of its blocks.
        objects: type to key to the last JSON object with that key.
        dropped: what could not be used.
        mapped: the file that the arrays are views of, None for bytes.
    """

    records: list[RecordBlock] = field(default_factory=list)
    samples: list[StructArray] = field(default_factory=list)
    string_logs: dict[int, list[tuple[int, bytearray]]] = field(default_factory=dict)
    region_pids: dict[int, int] = field(default_factory=dict)
    objects: dict[str, dict[tuple[int | str, ...], JsonObject]] = field(
        default_factory=lambda: {name: {} for name in _OBJECT_KEYS}
    )
    dropped: list[Dropped] = field(default_factory=list)
    mapped: mmap.mmap | None = None

    def forget_pages(self) -> None:
        """Takes what was read of the file out of the process's memory; it is read again where it is needed."""
        if self.mapped is not None:
            self.mapped.madvise(mmap.MADV_DONTNEED)


def read_spool(source: str | Path | IO[bytes]) -> Spool:
    """Read a spool from a path or an open file.

    The arrays of the result are views of the mapped file.

    Raises:
        CaptureError: it cannot be read, is no spool, or another version wrote it.
    """
    try:
        if isinstance(source, (str, Path)):
            with open(source, "rb") as file:
                mapped = _map(file)
        else:
            mapped = _map(source)
    except OSError as error:
        raise CaptureError("cannot read the spool", str(error)) from error
    if mapped is None:
        return Spool()
    spool = parse_spool(memoryview(mapped))
    spool.mapped = mapped
    return spool


def _map(file: IO[bytes]) -> mmap.mmap | None:
    file.seek(0, 2)
    if file.tell() == 0:
        return None  # mmap refuses an empty file
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def parse_spool(data: memoryview | bytes) -> Spool:
    """Parse the bytes of a spool.

    Raises:
        CaptureError: the first block is no block, or of another version.
    """
    data = memoryview(data)
    spool = Spool()
    position = 0
    while position < len(data):
        end = position
        if len(data) - position >= BLOCK_DTYPE.itemsize:
            header = np.frombuffer(data, BLOCK_DTYPE, 1, position)[0]
            _check_first(header, position)
            payload = position + BLOCK_DTYPE.itemsize
            end = payload + int(header["length"])
        if end == position or end > len(data) or not _is_block(header):
            spool.dropped.append(Dropped("spool_truncated", len(data) - position, f"byte {position} of the spool"))
            break
        take = _TAKERS.get(int(header["kind"]))
        if take is not None:  # a newer collector may write kinds that are unknown here
            take(spool, header, data[payload:end], f"the block at byte {position} of the spool")
        position = end
    return spool


def _is_block(header: np.void) -> bool:
    return bool(header["magic"] == CONSTANTS["PLN_BLOCK_MAGIC"] and header["version"] == CONSTANTS["PLN_VERSION"])


def _check_first(header: np.void, position: int) -> None:
    if position or _is_block(header):
        return
    if header["magic"] != CONSTANTS["PLN_BLOCK_MAGIC"]:
        raise CaptureError("cannot read the spool", "it does not begin with a block of Pillion's")
    raise CaptureError(
        "cannot read the spool",
        f"it has version {header['version']}, this Pillion reads version {CONSTANTS['PLN_VERSION']}",
        "read it with the Pillion that recorded it",
    )


def _records_of(spool: Spool, payload: memoryview, dtype: np.dtype[np.void], place: str) -> StructArray:
    count, rest = divmod(len(payload), _RECORD_SIZE)
    if rest:
        spool.dropped.append(Dropped("spool_corrupt", 1, f"a part of a record in {place}"))
    return np.frombuffer(payload, dtype, count)


def _take_records(spool: Spool, header: np.void, payload: memoryview, place: str) -> None:
    region, pid = int(header["region"]), int(header["pid"])
    spool.region_pids[region] = pid
    spool.records.append(RecordBlock(region, pid, _records_of(spool, payload, RANGE_DTYPE, place)))


def _take_samples(spool: Spool, header: np.void, payload: memoryview, place: str) -> None:
    spool.samples.append(_records_of(spool, payload, SAMPLE_DTYPE, place))


def _take_strings(spool: Spool, header: np.void, payload: memoryview, place: str) -> None:
    region, offset = int(header["region"]), int(header["offset"])
    spool.region_pids[region] = int(header["pid"])
    log = spool.string_logs.setdefault(region, [])
    if log and log[-1][0] + len(log[-1][1]) == offset:
        log[-1][1].extend(payload)  # an entry may go on here
    else:
        log.append((offset, bytearray(payload)))


def _take_json(spool: Spool, header: np.void, payload: memoryview, place: str) -> None:
    try:
        items = json.loads(bytes(payload))
    except (ValueError, RecursionError):
        items = None
    if not isinstance(items, list):
        spool.dropped.append(Dropped("spool_corrupt", 1, f"no JSON array in {place}"))
        return
    bad = sum(not _take_object(spool, item) for item in items)
    if bad:
        spool.dropped.append(Dropped("spool_corrupt", bad, f"objects without type or key in {place}"))


def _take_object(spool: Spool, item: Any) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str):
        return False
    if kind not in _OBJECT_KEYS:
        return True  # a newer collector may write types that are unknown here
    key = tuple(item.get(name, 0) for name in _OBJECT_KEYS[kind])
    if not all(isinstance(part, (int, str)) for part in key):
        return False
    spool.objects[kind][key] = item
    return True


_TAKERS: dict[int, Callable[[Spool, np.void, memoryview, str], None]] = {
    CONSTANTS["PLN_BLOCK_RECORDS"]: _take_records,
    CONSTANTS["PLN_BLOCK_STRINGS"]: _take_strings,
    CONSTANTS["PLN_BLOCK_SAMPLES"]: _take_samples,
    CONSTANTS["PLN_BLOCK_JSON"]: _take_json,
}


def parse_string_log(log: list[tuple[int, bytearray]], region: int) -> tuple[dict[int, str], list[Dropped]]:
    """The texts of a region's string log by id; of each stretch up to the first entry that cannot be.

    An entry is {u32 length; u32 hash; bytes; zero padding to 8}; its id is its place in the log / 8.
    """
    texts: dict[int, str] = {}
    dropped: list[Dropped] = []
    for offset, data in log:
        position = 0
        while position < len(data):
            end = position + 8 + int.from_bytes(data[position : position + 4], "little")
            if end > len(data) or end - position - 8 > _NAME_MAX:
                place = f"byte {offset + position} of the string log of region {region}"
                dropped.append(Dropped("spool_corrupt", 1, place))
                break
            texts[(offset + position) // 8] = data[position + 8 : end].decode("utf-8", "replace")
            position = -(-end // 8) * 8
    return texts, dropped
