"""What of a profile could not be read."""

from __future__ import annotations

from pillion._tables import Columns, from_rows


class Losses:
    """Counts by kind, each with the place of the first one."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._places: dict[str, str] = {}

    def add(self, kind: str, count: int, place: str) -> None:
        """Count ``count`` more of a kind; of none nothing is said."""
        if count > 0:
            self._counts[kind] = self._counts.get(kind, 0) + count
            self._places.setdefault(kind, place)

    def table(self) -> Columns:
        """The table ``losses``."""
        return from_rows("losses", [(kind, 0, 0, count, self._places[kind]) for kind, count in self._counts.items()])
