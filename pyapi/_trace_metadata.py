"""What a user adds to the traces of a profile."""

from __future__ import annotations

import json
from typing import Any


class TraceMetadata:
    """Texts and JSON values by key; they are in every trace that is exported after they were given.

    Attributes:
        preset_metadata: JSON texts for the traces of cycles that begin later.
    """

    def __init__(self) -> None:
        self.preset_metadata: dict[str, str] = {}
        self._trace_metadata: dict[str, str] = {}

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to the traces."""
        self._trace_metadata[key] = json.dumps(str(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a value, given as JSON, to the traces.

        Raises:
            ValueError: it is no JSON; torch would write a trace that nobody can read.
        """
        json.loads(value)
        self._trace_metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same for traces of cycles that begin later."""
        json.loads(value)
        self.preset_metadata[key] = value

    def trace_metadata(self) -> dict[str, Any]:
        """Everything that was added."""
        return {key: json.loads(value) for key, value in self._trace_metadata.items()}

    def _adopt_metadata(self) -> None:
        """A cycle begins."""
        self._trace_metadata |= self.preset_metadata
