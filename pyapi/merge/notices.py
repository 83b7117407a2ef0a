"""What the sources in a job have to say to the user: why they collect nothing, how exact their times are."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._tables import Array
from pillion.merge.inventory import integer, text
from pillion.merge.records import Records, Strings
from pillion.merge.spool import Dropped, Spool
from pillion_probes.layout import CONSTANTS

_SOURCES = {
    CONSTANTS["PLN_SOURCE_RECORD_FUNCTION"]: "record_function",
    CONSTANTS["PLN_SOURCE_C"]: "C",
    CONSTANTS["PLN_SOURCE_TORCH"]: "torch",
    CONSTANTS["PLN_SOURCE_NVTX"]: "NVTX",
    CONSTANTS["PLN_SOURCE_ITT"]: "ITT",
    CONSTANTS["PLN_SOURCE_CUDA"]: "CUDA",
    CONSTANTS["PLN_SOURCE_USDT"]: "USDT",
}
_KINDS = {CONSTANTS["PLN_NOTICE_TEXT"]: "text", CONSTANTS["PLN_NOTICE_CLOCK"]: "clock"}
_UNAVAILABLE = {"CUDA": "cuda_unavailable", "torch": "torch_unavailable", "environment": "collectors_unavailable"}
_NOTICES_MAX = 1_000  # of what a job says; an honest one says a handful
_INT_MAX = 2**63 - 1


def notices_of_processes(spool: Spool, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a collector says of processes, as ``notices`` does: what of them is not recorded.

    Args:
        said: by the processes themselves, who know better where they speak of the same source.
    """
    known = {(notice["pid"], notice["source"]) for notice in said}
    return [
        {"pid": pid, "source": source, "kind": "text", "text": reason, "value": 0}
        for item in spool.objects["process"].values()
        for source, key in _UNAVAILABLE.items()
        if (reason := text(item, key)) and ((pid := integer(item, "pid")), source) not in known
    ]


def notices(of: Records, strings: Strings, dropped: list[Dropped]) -> list[dict[str, Any]]:
    """``[{"pid", "source", "kind", "text", "value"}]``, each once, in the order in which they were said.

    ``kind`` says what ``value`` is: of a "text" nothing, of a "clock" by how many ns the times of the source may be
    wrong. Notices of kinds that are unknown here are left out.

    Args:
        of: records of the kind PLN_NOTICE, as ranges.
    """
    of = of.where(np.isin(of.records["scope"], list(_KINDS)))
    columns: tuple[Array, ...] = (
        of.pid,
        of.records["source"],
        of.records["scope"],
        strings.rows(of.records["name"], of.region),
        np.minimum(of.records["value"], np.uint64(_INT_MAX)),
    )
    distinct = list(dict.fromkeys(zip(*(column.tolist() for column in columns))))
    if len(distinct) > _NOTICES_MAX:
        dropped.append(Dropped("notices", len(distinct) - _NOTICES_MAX, f"notices beyond the first {_NOTICES_MAX:,}"))
    texts = strings.texts
    return [
        {
            "pid": pid,
            "source": _SOURCES.get(source, str(source)),
            "kind": _KINDS[kind],
            "text": texts[name],
            "value": value,
        }
        for pid, source, kind, name, value in distinct[:_NOTICES_MAX]
    ]
