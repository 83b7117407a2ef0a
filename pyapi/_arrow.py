"""Tables as Arrow, which is what is stored and what users get, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pillion._errors import CaptureError
from pillion._tables import OPTIONAL, SCHEMAS, Columns, Labels, Ragged, text_column

if TYPE_CHECKING:
    import pyarrow as pa


def to_arrow(table: str, columns: Columns) -> pa.Table:
    """The Arrow table, without the optional columns that it lacks; numeric columns share their memory."""
    import pyarrow as pa

    arrays = {}
    for name, kind in SCHEMAS[table].items():
        if name not in columns and name in OPTIONAL.get(table, {}):
            continue
        column = columns[name]
        if kind == "ids":
            arrays[name] = pa.ListArray.from_arrays(pa.array(column.offsets), pa.array(column.values))
        elif kind == "label":
            texts = pa.array(column.texts, pa.string())
            arrays[name] = pa.DictionaryArray.from_arrays(pa.array(column.codes), texts)
        else:
            arrays[name] = pa.array(column, pa.string() if kind == "text" else None)
    return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def from_arrow(table: str, arrow: pa.Table) -> Columns:
    """The columns of an Arrow table.

    Raises:
        CaptureError: a column is missing, has another type, or has nulls where none may be.
    """
    import pyarrow as pa

    columns: Columns = {}
    for name, kind in SCHEMAS[table].items():
        if name not in arrow.column_names and name in OPTIONAL.get(table, {}):
            continue
        try:
            columns[name] = _from_arrow_column(arrow.column(name), kind)
        except (KeyError, AttributeError, ValueError, pa.ArrowException) as error:
            raise CaptureError(f"cannot read the table {table}", f"column {name}: {error}") from error
    return columns


def _from_arrow_column(chunked: pa.ChunkedArray, kind: str) -> Any:
    import pyarrow as pa

    if kind == "label":
        if not pa.types.is_dictionary(chunked.type):
            chunked = chunked.cast(pa.string()).dictionary_encode()
        return _labels_from_arrow(chunked.unify_dictionaries().combine_chunks())
    column = chunked.combine_chunks()
    if kind == "text":
        return text_column(column.cast(pa.string()).to_pylist())
    if kind == "ids":
        return Ragged(column.offsets.to_numpy().astype(np.int32), column.values.to_numpy().astype(np.int32))
    return column.cast(pa.from_numpy_dtype(np.dtype(kind))).to_numpy()


def _labels_from_arrow(column: pa.DictionaryArray) -> Labels:
    texts = column.dictionary.to_pylist()
    codes = column.indices.to_numpy().astype(np.int32)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its labels are not all texts")
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(texts):
        raise ValueError("it points outside its labels")
    return Labels(codes, tuple(texts))
