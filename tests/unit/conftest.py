"""A capture whose every number is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from spool_writer import SpoolWriter, training_spool

from pillion._capture import Capture, read_spool_capture


@pytest.fixture
def spool() -> SpoolWriter:
    """An empty spool with one region, 1, of process 41."""
    writer = SpoolWriter()
    writer.region(1, 41)
    return writer


@pytest.fixture
def training(tmp_path: Path) -> Capture:
    """The capture of ``training_spool``, in memory."""
    path = tmp_path / "training.spool"
    path.write_bytes(training_spool())
    return read_spool_capture(path)
