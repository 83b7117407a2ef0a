"""What a range costs in C; see c_ranges.c."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import _c_program


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([str(_c_program.build("c_ranges", Path(directory)))], check=True)


if __name__ == "__main__":
    main()
