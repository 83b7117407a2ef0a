"""What the imports of Nsight Systems' and nvprof's databases do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from pillion._capture import Capture
from pillion._tables import Array, Columns
from pillion.importers.database import Database
from pillion.importers.gpu_profile import GpuProfile
from pillion.importers.losses import Losses

CUPTI = "CUPTI_ACTIVITY_KIND_"


class DatabaseImport(ABC):
    """One import; a subclass says where its texts are and makes the capture.

    Attributes:
        texts_in: the table of texts, its column of numbers and that of texts.
    """

    texts_in: tuple[str, str, str]

    def __init__(self, database: Database, losses: Losses) -> None:
        self._database = database
        self._losses = losses
        self._profile = GpuProfile(losses)
        self._texts = database.texts(*self.texts_in)
        self._read: set[str] = set()

    @classmethod
    def of_file(cls, path: Path) -> Capture:
        """Read a database.

        Raises:
            CaptureError: it is none.
            OSError: it cannot be read.
        """
        losses = Losses()
        with Database(path, losses) as database:
            return cls(database, losses).capture()

    @abstractmethod
    def capture(self) -> Capture:
        """Everything that the database holds."""

    def _has(self, table: str, *columns: str) -> bool:
        """Whether there is a table with these columns; it is read then."""
        if not self._database.has(table, *columns):
            return False
        self._read.add(table)
        return True

    @abstractmethod
    def _pids_of_devices(self, table: str, count: int) -> Array:
        """The process that started each row's work."""

    def _device_rows(self, table: str, extra: tuple[str, ...]) -> tuple[dict[str, Array], Columns]:
        """Columns as the database has them, and those of activities."""
        wanted = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "bytes", *extra)
        rows = self._database.integers(table, {name: -1 if name == "deviceId" else 0 for name in wanted})
        return rows, {
            "pid": self._pids_of_devices(table, len(rows["start"])),
            "start_ns": rows["start"],
            "end_ns": rows["end"],
            "device": rows["deviceId"],
            "context": rows["contextId"],
            "stream": rows["streamId"],
            "correlation": rows["correlationId"],
            "bytes": rows["bytes"],
        }

    def _add_copies(self, what: str, kind: str, key: str, names: dict[int, str]) -> None:
        """Activities that are named by a number, or all alike where ``names`` has none."""
        table = f"{CUPTI}{what}"
        if not self._has(table, "start", "end"):
            return
        rows, columns = self._device_rows(table, (key,))
        numbers = rows[key] if names else np.zeros_like(rows[key])
        title = kind.capitalize()
        columns["name"] = self._profile.rows_of(names or {0: title}, numbers, f"{title} kind")
        self._profile.add_activities(kind, columns)
