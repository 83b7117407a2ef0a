"""What a profile of CUDA graphs needs: torch's inductor may replay them, and CUPTI's end would break them."""

from __future__ import annotations

import os
import sys


def uses_cuda_graphs() -> bool:
    """Whether torch's inductor makes CUDA graphs."""
    config = sys.modules.get("torch._inductor.config")
    return config is not None and bool(getattr(config.triton, "cudagraphs", False))


def keep_cupti() -> bool:
    """Has CUPTI stay where graphs would not survive its end and its second beginning; whether they would not.

    torch 2.13: CUDA 11 crashes on the first start after an end, CUDA 12 before 12.6 on the second.
    """
    torch = sys.modules["torch"]
    cuda = torch.version.cuda
    allowed = getattr(torch._utils_internal, "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12", lambda: True)
    if (cuda is None or tuple(int(part) for part in cuda.split(".")[:2]) >= (12, 6)) and allowed():
        return False
    os.environ["DISABLE_CUPTI_LAZY_REINIT"] = "1"
    os.environ["TEARDOWN_CUPTI"] = "0"
    return True
