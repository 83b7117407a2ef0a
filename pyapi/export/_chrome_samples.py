"""Waits and samples as elements of a Chrome trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Array, Columns, Tables
from pillion.analysis.waits import stack_reasons
from pillion.export._chrome_places import place
from pillion.export._json_rows import Elements, microseconds, quoted
from pillion.export._rows import Dictionary, chunks, decimals, joined, only

if TYPE_CHECKING:
    import pyarrow as pa

    from pillion.export._stack_tree import StackTree


def write_waits(elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
    """A slice for each, named for what was waited for."""
    waits = tables["waits"]
    reasons = Dictionary(stack_reasons(tables), [waits["stack"]], quoted)
    for part in chunks(reasons.sizes(waits["stack"])):
        rows: Columns = {name: values[part] for name, values in waits.items()}
        elements.write(
            joined(
                b',\n{"ph":"X","cat":"wait","name":',
                reasons.pick(rows["stack"]),
                *place(rows["pid"], rows["tid"], rows["start_ns"] - start_ns),
                b',"dur":',
                microseconds(np.maximum(rows["end_ns"] - rows["start_ns"], 0)),
                _stack(tree, rows["stack"]),
                b',"args":{"runnable_us":',
                microseconds(rows["runnable_ns"]),
                b',"waker_tid":',
                decimals(rows["waker_tid"]),
                b"}}",
            )
        )


def write_samples(elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
    """An instant for each, named for the function that ran."""
    samples = tables["samples"]
    leaves = Dictionary(stack_reasons(tables), [samples["stack"]], quoted)
    for part in chunks(leaves.sizes(samples["stack"])):
        rows: Columns = {name: values[part] for name, values in samples.items()}
        elements.write(
            joined(
                b',\n{"ph":"i","s":"t","cat":"sample","name":',
                leaves.pick(rows["stack"]),
                *place(rows["pid"], rows["tid"], rows["ts_ns"] - start_ns),
                _stack(tree, rows["stack"]),
                b',"args":{"cpu":',
                decimals(rows["cpu"]),
                b',"weight_us":',
                microseconds(rows["weight_ns"]),
                b"}}",
            )
        )


def _stack(tree: StackTree, stacks: Array) -> pa.LargeBinaryArray:
    leaf = tree.leaf[stacks]
    return only(leaf >= 0, joined(b',"sf":"', decimals(leaf), b'"'))
