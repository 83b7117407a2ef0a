"""The tables of a capture as Parquet files, for DuckDB, Polars, pandas and whatever else reads them."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pillion._arrow import to_arrow
from pillion._errors import CaptureError
from pillion._tables import Columns

if TYPE_CHECKING:
    from pillion._capture import Capture

_GROUP_ROWS = 262_144


def write_parquet(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a folder with one file a table, which is made where it is missing; other files in it stay.

    The files take their names once all of them are whole. Each has the capture's meta as JSON, under the key
    ``pillion``.

    Raises:
        OSError: the folder cannot be written; what was there stays as it was.
        CaptureError: a table holds what Parquet cannot.
    """
    folder, meta = Path(path), json.dumps(capture.meta)
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    parts: dict[Path, Path] = {}
    try:
        for name, columns in capture.columns.items():
            target = folder / f"{name}.parquet"
            parts[target] = folder / f".{target.name}.{os.getpid()}.part"
            _write_table(name, columns, parts[target], {"pillion": meta})
        for target, part in parts.items():
            os.replace(part, target)
    except BaseException:
        for part in parts.values():
            part.unlink(missing_ok=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _write_table(name: str, columns: Columns, path: Path, meta: dict[str, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = to_arrow(name, columns).replace_schema_metadata(meta)
        pq.write_table(table, path, compression="zstd", row_group_size=_GROUP_ROWS)
    except (pa.ArrowException, UnicodeError) as error:
        raise CaptureError(f"cannot write the table {name}", str(error)) from error
