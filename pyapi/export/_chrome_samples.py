"""Waits and samples as elements of a Chrome trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Array, Columns, Tables, length
from pillion.analysis.waits import stack_reasons
from pillion.export._chrome_places import place
from pillion.export._json_pieces import Column, integers, microseconds, parts
from pillion.export._json_rows import Elements, quoted
from pillion.export._rows import Dictionary

if TYPE_CHECKING:
    from pillion.export._stack_tree import StackTree


def write_waits(elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
    """A slice for each, named for what was waited for."""
    waits = tables["waits"]
    reasons = Dictionary(stack_reasons(tables), [waits["stack"]], quoted)
    for part in parts(length(waits)):
        rows: Columns = {name: values[part] for name, values in waits.items()}
        elements.write_rows(
            length(rows),
            b',\n{"ph":"X","cat":"wait","name":',
            reasons.piece(rows["stack"]),
            *place(rows["pid"], rows["tid"], rows["start_ns"] - start_ns),
            microseconds(b',"dur":', np.maximum(rows["end_ns"] - rows["start_ns"], 0)),
            _stack(tree, rows["stack"]),
            microseconds(b',"args":{"runnable_us":', rows["runnable_ns"]),
            integers(b',"waker_tid":', rows["waker_tid"]),
            b"}}",
        )


def write_samples(elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
    """An instant for each, named for the function that ran."""
    samples = tables["samples"]
    leaves = Dictionary(stack_reasons(tables), [samples["stack"]], quoted)
    for part in parts(length(samples)):
        rows: Columns = {name: values[part] for name, values in samples.items()}
        elements.write_rows(
            length(rows),
            b',\n{"ph":"i","s":"t","cat":"sample","name":',
            leaves.piece(rows["stack"]),
            *place(rows["pid"], rows["tid"], rows["ts_ns"] - start_ns),
            _stack(tree, rows["stack"]),
            integers(b',"args":{"cpu":', rows["cpu"]),
            microseconds(b',"weight_us":', rows["weight_ns"]),
            b"}}",
        )


def _stack(tree: StackTree, stacks: Array) -> Column:
    return integers(b',"sf":"', tree.leaf[stacks], silent=-1, after=b'"')
