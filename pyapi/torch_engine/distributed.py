"""What a trace says of the job that its process is part of: torch's ``distributedInfo``."""

from __future__ import annotations

import sys
from typing import Any


def distributed_info() -> dict[str, Any] | None:
    """Backend, rank, world size and process groups; None where torch.distributed was not initialised."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    backend = dist.get_backend()
    info: dict[str, Any] = {"backend": backend, "rank": dist.get_rank(), "world_size": dist.get_world_size()}
    if hasattr(dist, "get_pg_count"):  # torch 2.1
        info["pg_count"] = dist.get_pg_count()
        info["pg_config"] = dist.distributed_c10d._get_all_pg_configs()
    if backend == "nccl":
        info["nccl_version"] = ".".join(str(part) for part in sys.modules["torch"].cuda.nccl.version())
    return info
