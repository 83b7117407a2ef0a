"""``tensorboard_trace_handler``: an ``on_trace_ready`` that fills a folder as TensorBoard's plugin wants it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """For ``profile(on_trace_ready=…)``: each cycle becomes ``<worker>.<time>.pt.trace.json`` in a folder.

    Args:
        worker_name: of this process among those that share the folder; None: ``<host>_<pid>``.
        use_python_export: accepted for torch's sake; there is one export.

    The handler raises RuntimeError where the folder cannot be made.
    """

    def write(prof: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        suffix = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{suffix}"), use_python_export)

    return write
