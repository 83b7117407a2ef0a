"""A capture: what one recording found, as tables, on disk and in memory.

On disk it is a directory of Arrow IPC streams, one a table, and meta.json, which is written last: a directory without
it, but with ``capture.spool``, is a recording whose end nobody saw, and its spool is read instead.

``import pillion`` loads this module, so numpy and pyarrow are loaded where they are first needed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pillion._errors import CaptureError

if TYPE_CHECKING:
    import pyarrow as pa

    from pillion._tables import Columns, Tables
    from pillion.model import Detail, EventList, FunctionEventAvg

SPOOL_NAME = "capture.spool"
META_NAME = "meta.json"
FORMAT = 1
_BATCH_ROWS = 262_144


class Capture:
    """What one recording found.

    Attributes:
        meta: what was recorded, where, how and at what cost; see ARCHITECTURE.md, with ``recovered``: it was read from
            the spool of a recording that did not finish.
        columns: table name to numpy columns; the layout is in ``pillion._tables.SCHEMAS``.
        path: the directory, or None while it is only in memory.
        detail: what the lists of its events know beyond the tables, where this very process recorded them.
    """

    def __init__(self, columns: Tables, meta: dict[str, Any], path: Path | None = None) -> None:
        self.columns = columns
        self.meta = meta
        self.path = path
        self.detail: Detail | None = None

    def __repr__(self) -> str:
        from pillion._tables import length

        sizes = ", ".join(f"{length(self.columns[name]):,} {name}" for name in ("events", "samples", "waits"))
        return f"<pillion.Capture {self.path or 'in memory'}: {sizes}>"

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """Every table as Arrow, by name."""
        from pillion._arrow import to_arrow

        return {name: to_arrow(name, columns) for name, columns in self.columns.items()}

    @property
    def events(self) -> pa.Table:
        """Ranges and marks."""
        return self.tables["events"]

    @property
    def samples(self) -> pa.Table:
        """Moments at which a thread was found on a CPU."""
        return self.tables["samples"]

    @property
    def waits(self) -> pa.Table:
        """Times that threads spent off the CPU."""
        return self.tables["waits"]

    @property
    def activities(self) -> pa.Table:
        """Work of devices."""
        return self.tables["activities"]

    @property
    def stacks(self) -> pa.Table:
        """Stacks as rows of ``tables["frames"]``, leaf first."""
        return self.tables["stacks"]

    @property
    def strings(self) -> pa.Table:
        """Texts of names and args."""
        return self.tables["strings"]

    @property
    def processes(self) -> pa.Table:
        """The recorded processes."""
        return self.tables["processes"]

    @property
    def threads(self) -> pa.Table:
        """The recorded threads with the scheduler's exact times."""
        return self.tables["threads"]

    @property
    def losses(self) -> pa.Table:
        """What is missing, by kind, pid and tid."""
        return self.tables["losses"]

    @cached_property
    def function_events(self) -> EventList:
        """The ranges as torch's profiler would give them; made when someone looks."""
        from pillion.model import event_list
        from pillion.render.notes import capture_notes

        return event_list(self.columns, self.meta["start_ns"], capture_notes(self), detail=self.detail)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One FunctionEventAvg for each name, in the order in which the names first occurred."""
        return self.function_events.key_averages(group_by_input_shapes, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """The sum over all ranges, with the key "Total"."""
        return self.function_events.total_average()

    def export(self, path: str | os.PathLike[str], format: str, off_cpu: bool = False) -> None:
        """Write it in a format of another tool; what was at the path is replaced once the new is whole.

        >>> capture.export("flame.txt.gz", "collapsed")

        Args:
            format: "chrome", "perfetto", "speedscope", "pprof", "collapsed" or "parquet", the last to a folder.
            off_cpu: stacks of waits instead of samples, which only "collapsed" has.

        Raises:
            ValueError: there is no such format, or it has no such choice.
            OSError: the path cannot be written.
            CaptureError: the capture holds what the format cannot.
        """
        from pillion.export.registry import export

        export(self, path, format, off_cpu)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for chrome://tracing and Perfetto, gzipped where the path ends in ``.gz``.

        Raises:
            OSError: the file cannot be written.
        """
        from pillion.export.chrome import write_chrome_trace

        write_chrome_trace(self, path)


def open_capture(path: str | os.PathLike[str]) -> Capture:
    """Open a capture directory.

    Raises:
        CaptureError: there is none, it cannot be read, or another version wrote it.
    """
    directory = Path(path)
    try:
        if (directory / META_NAME).exists():
            return _read_directory(directory)
        if (directory / SPOOL_NAME).exists():
            return read_spool_capture(directory / SPOOL_NAME, directory, recovered=True)
        cause = f"it has neither {META_NAME} nor {SPOOL_NAME}" if directory.exists() else "there is no such folder"
        raise CaptureError(f"{directory} is no capture", cause, "`pillion record` and `pillion run` make captures")
    except OSError as error:
        raise CaptureError(f"cannot open {directory}", error.strerror or str(error)) from error


def read_spool_capture(spool: str | Path | IO[bytes], path: Path | None = None, recovered: bool = False) -> Capture:
    """The capture that a spool holds, in memory.

    Raises:
        CaptureError: the spool cannot be read.
    """
    from pillion.merge import merge
    from pillion.merge.spool import read_spool

    columns, meta = merge(read_spool(spool))
    return Capture(columns, {**meta, "format": FORMAT, "recovered": recovered}, path)


def write_capture(spool: str | Path | IO[bytes], directory: str | os.PathLike[str]) -> Capture:
    """Turn a spool into a capture directory; the spool is removed once everything is on disk.

    Raises:
        CaptureError: the spool cannot be read, or the directory cannot be written; the spool stays.
    """
    target = Path(directory)
    capture = read_spool_capture(spool, target)
    name = spool if isinstance(spool, (str, Path)) else None
    kept = f"what was recorded is kept in {name}" if name else ""
    save_capture(capture, target, Path(name) if name else target / SPOOL_NAME, kept)
    return capture


def save_capture(
    capture: Capture, directory: str | os.PathLike[str], spool: Path | None = None, if_fails: str = ""
) -> None:
    """Write a capture to a directory, which is made where it is missing; what is in it is replaced.

    Args:
        spool: what it was read from, to be removed once everything is on disk.
        if_fails: what an error says about the spool.

    Raises:
        CaptureError: it cannot be written.
    """
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
        _write_directory(capture, target)
        if spool is not None:
            spool.unlink(missing_ok=True)
    except OSError as error:
        raise CaptureError(f"cannot write {target}", error.strerror or str(error), if_fails) from error


def _write_directory(capture: Capture, directory: Path) -> None:
    import pyarrow as pa

    for name, table in capture.tables.items():
        with _replacing(directory / f"{name}.arrow") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=_BATCH_ROWS)
    with _replacing(directory / META_NAME) as file:
        file.write(json.dumps(capture.meta, indent=1).encode())
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)  # the names are on disk before the spool goes
    finally:
        os.close(folder)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name once it is whole and on disk."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _read_directory(directory: Path) -> Capture:
    from pillion._tables import SCHEMAS, check_references

    try:
        meta = json.loads((directory / META_NAME).read_bytes())
    except ValueError as error:
        raise CaptureError(f"cannot open {directory}", f"{META_NAME} is damaged: {error}") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        found = meta.get("format") if isinstance(meta, dict) else None
        raise CaptureError(
            f"cannot open {directory}",
            f"its format is {found}, this Pillion reads {FORMAT}",
            "open it with the Pillion that recorded it",
        )
    columns = {name: _read_table(directory, name) for name in SCHEMAS}
    check_references(columns)
    return Capture(columns, meta, directory)


def _read_table(directory: Path, name: str) -> Columns:
    import pyarrow as pa

    from pillion._arrow import from_arrow

    path = directory / f"{name}.arrow"
    try:
        with pa.memory_map(str(path)) as file:
            return from_arrow(name, pa.ipc.open_stream(file).read_all())
    except (pa.ArrowException, FileNotFoundError) as error:
        raise CaptureError(f"cannot open {directory}", f"{path.name} is damaged: {error}") from error
