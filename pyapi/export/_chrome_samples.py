"""Waits and samples as elements of a Chrome trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Array, Columns, Tables, length
from pillion.analysis.waits import stack_reasons
from pillion.export._chrome_args import Args
from pillion.export._chrome_own import moment_differences
from pillion.export._chrome_places import place
from pillion.export._details import Detail
from pillion.export._json_pieces import Column, integers, microseconds, parts
from pillion.export._json_rows import Elements, quoted
from pillion.export._rows import Dictionary

if TYPE_CHECKING:
    from pillion.export._stack_tree import StackTree


def write_waits(elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
    """A slice for each, named for what was waited for."""
    waits = tables["waits"]
    reasons = Dictionary(stack_reasons(tables), [waits["stack"]], quoted)
    args = Args([*_numbers(waits, "waker_tid", "waker_pid", "state", "cpu"), *moment_differences(tables, "waits")])
    for part in parts(length(waits)):
        start, end, stack = (waits[key][part] for key in ("start_ns", "end_ns", "stack"))
        elements.write_rows(
            len(stack),
            b',\n{"ph":"X","cat":"wait","name":',
            reasons.piece(stack),
            *place(waits["pid"][part], waits["tid"][part], start - start_ns),
            microseconds(b',"dur":', np.maximum(end - start, 0)),
            _stack(tree, stack),
            *args.of(np.arange(part.start, part.stop), microseconds(b',"runnable_us":', waits["runnable_ns"][part])),
            b"}",
        )


def write_samples(elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
    """An instant for each, named for the function that ran."""
    samples = tables["samples"]
    leaves = Dictionary(stack_reasons(tables), [samples["stack"]], quoted)
    args = Args([*_numbers(samples, "cpu"), *moment_differences(tables, "samples")])
    for part in parts(length(samples)):
        stack = samples["stack"][part]
        elements.write_rows(
            len(stack),
            b',\n{"ph":"i","s":"t","cat":"sample","name":',
            leaves.piece(stack),
            *place(samples["pid"][part], samples["tid"][part], samples["ts_ns"][part] - start_ns),
            _stack(tree, stack),
            *args.of(np.arange(part.start, part.stop), microseconds(b',"weight_us":', samples["weight_ns"][part])),
            b"}",
        )


def _numbers(rows: Columns, *names: str) -> list[Detail]:
    return [Detail(name, rows[name].astype(np.int64), silent=None) for name in names]


def _stack(tree: StackTree, stacks: Array) -> Column:
    return integers(b',"sf":"', tree.leaf[stacks], silent=-1, after=b'"')
