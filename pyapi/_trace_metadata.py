"""What a user adds to the traces of a profile."""

from __future__ import annotations

import json
from typing import Any


class TraceMetadata:
    """Texts and JSON values by key; they are in every trace that is exported after they were given."""

    def __init__(self) -> None:
        self._metadata: dict[str, Any] = {}
        self._preset: dict[str, Any] = {}

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to the traces."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a value, given as JSON, to the traces.

        Raises:
            ValueError: it is no JSON; torch would write a trace that nobody can read.
        """
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same for traces of cycles that begin later."""
        self._preset[key] = json.loads(value)

    def trace_metadata(self) -> dict[str, Any]:
        """Everything that was added."""
        return dict(self._metadata)

    def _adopt_metadata(self) -> None:
        """A cycle begins."""
        self._metadata |= self._preset
