"""A profile that is an SQLite database: opened for reading alone, its tables and columns found by looking.

SQLite checks no types and a file may be damaged anywhere: a value is converted where it is read, and a table gives the
rows before its damage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np

from pillion._errors import CaptureError
from pillion._tables import Array
from pillion.importers.losses import Losses

MAGIC = b"SQLite format 3\x00"
_ROWS = 50_000
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"  # no virtual ones
_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the second: names that are no UTF-8


class Database:
    """An open database.

    Attributes:
        tables: the name of each table to its columns.
    """

    def __init__(self, path: Path, losses: Losses) -> None:
        """Open a database.

        Raises:
            CaptureError: it is none, or its list of tables is damaged.
            OSError: it cannot be read.
        """
        self.path = path
        self._losses = losses
        with open(path, "rb"):
            pass  # SQLite's own error does not say why
        # immutable: SQLite would otherwise make files beside it.
        self._connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        wal = path.with_name(f"{path.name}-wal")
        losses.add("write_ahead_log", int(wal.exists() and wal.stat().st_size > 0), f"{wal} is not read")
        try:
            self._connection.execute("PRAGMA trusted_schema = OFF")
            # Allows to read a file that is shorter than it says; nothing can be written.
            self._connection.execute("PRAGMA writable_schema = ON")
            names = [name for (name,) in self._connection.execute(_TABLES)]
            self.tables = {name: self._columns_of(name) for name in names if isinstance(name, str)}
        except _ERRORS as error:
            self._connection.close()
            raise CaptureError(f"cannot import {path}", f"its list of tables: {error}") from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def _columns_of(self, table: str) -> set[str]:
        return {str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")}

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is a table with all of these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def integers(self, table: str, columns: dict[str, int], where: str = "1") -> dict[str, Array]:
        """Columns as int64, in the order of the rows.

        Args:
            columns: the name of each to what a row has that lacks it or has NULL there.
            where: an SQL condition.
        """
        terms = [
            f"CAST(IFNULL({_quoted(name)}, {default}) AS INTEGER)" if name in self.tables[table] else str(default)
            for name, default in columns.items()
        ]
        empty = np.empty((0, len(terms)), np.int64)
        parts = [np.array(rows, np.int64) for rows in self._select(table, ", ".join(terms), where) if rows]
        values = np.concatenate(parts) if parts else empty
        return {name: np.ascontiguousarray(values[:, place]) for place, name in enumerate(columns)}

    def rows(self, table: str, columns: tuple[str, ...], where: str = "1") -> Iterator[tuple[Any, ...]]:
        """Rows with whatever SQLite has in the columns, None for a column that is not there."""
        terms = (_quoted(name) if name in self.tables[table] else "NULL" for name in columns)
        for rows in self._select(table, ", ".join(terms), where):
            yield from rows

    def texts(self, table: str, key: str, value: str) -> dict[int, str]:
        """A table of numbered texts; without one an empty dict."""
        if not self.has(table, key, value):
            return {}
        rows = self.rows(table, (key, value))
        return {number: text for number, text in rows if isinstance(number, int) and isinstance(text, str)}

    def _select(self, table: str, terms: str, where: str) -> Iterator[list[tuple[Any, ...]]]:
        rows: list[tuple[Any, ...]] = []
        try:
            with closing(self._connection.execute(f"SELECT {terms} FROM {_quoted(table)} WHERE {where}")) as cursor:
                for row in cursor:  # one at a time: those before a damage must not be lost
                    rows.append(row)
                    if len(rows) == _ROWS:
                        yield rows
                        rows = []
        except _ERRORS as error:
            self._losses.add("sqlite_damaged", 1, f"table {table} of {self.path}: {error}")
        yield rows

    def count_unread(self, read: set[str], times: tuple[str, ...]) -> None:
        """Counts the rows of the tables that tell of moments and that nobody reads."""
        found = {}
        for table in sorted(self.tables.keys() - read):
            if self.tables[table].intersection(times) and not table.startswith(("ENUM_", "sqlite_")):
                found[table] = sum(row[0] for rows in self._select(table, "count(*)", "1") for row in rows)
        names = ", ".join(name for name, count in found.items() if count)
        self._losses.add("unread_rows", sum(found.values()), f"rows of {names}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
