"""Texts of a file that become labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pillion._tables import Array, Labels


def labels(numbers: Array, texts: list[str], rename: Callable[[str], str]) -> Labels:
    """The label of each row, its text renamed.

    Args:
        numbers: indices of texts.
    """
    codes: dict[str, int] = {}
    of_number = np.zeros(len(texts), np.int32)
    for number in np.flatnonzero(np.bincount(numbers, minlength=len(texts))).tolist():
        of_number[number] = codes.setdefault(rename(texts[number]), len(codes))
    return Labels(of_number[numbers], tuple(codes))
