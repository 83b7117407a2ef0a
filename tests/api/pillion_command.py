"""The command line as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TIMEOUT_S = 120

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def command_in(folder: Path) -> Run:
    """``run("record", …, environment={…})`` runs pillion in ``folder`` and returns what a user sees."""

    def run(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pillion", *map(str, arguments)],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    return run
