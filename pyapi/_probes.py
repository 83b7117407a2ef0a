"""Other programs' USDT probes, as the user names them: PATH:PROVIDER:PROBE.

A path becomes a descriptor, which proves to the agent that this user may read the file; the agent opens no path for a
client. A name without a slash is looked for in what the recorded processes have mapped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pillion._errors import UsageError

_FORM = "PATH:PROVIDER:PROBE, as in libfoo.so.1:foo:*"


@dataclass(frozen=True)
class ProbeChoice:
    """Probes of a file.

    Attributes:
        path: of the file, with a slash; or the name of a library; "*" for every file.
        provider, probe: names, in which * stands for anything.
    """

    path: str
    provider: str
    probe: str

    @property
    def is_file(self) -> bool:
        return "/" in self.path


def parse_probe(text: str) -> ProbeChoice:
    """``PATH:PROVIDER:PROBE``; an empty part is a ``*``.

    Raises:
        ValueError: it has another form.
    """
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not any(parts):
        raise ValueError(f"{text!r} names no probes: {_FORM}")
    path, provider, probe = (part or "*" for part in parts)
    return ProbeChoice(path, provider, probe)


@contextmanager
def opened(choices: Sequence[ProbeChoice]) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    """The request's "probes", and the descriptors that go with it.

    Raises:
        UsageError: a file cannot be read.
    """
    with ExitStack() as files:
        descriptors: dict[str, int] = {}
        for choice in choices:
            if choice.is_file and choice.path not in descriptors:
                descriptors[choice.path] = _open(choice.path)
                files.callback(os.close, descriptors[choice.path])
        places = {path: place for place, path in enumerate(descriptors)}
        message = [
            {
                "library": "" if choice.path == "*" else choice.path,
                "provider": choice.provider,
                "probe": choice.probe,
                **({"file": places[choice.path]} if choice.is_file else {}),
            }
            for choice in choices
        ]
        yield message, list(descriptors.values())


def _open(path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _unreadable(path, "it is no regular file")
    return fd


def _unreadable(path: str, why: str) -> UsageError:
    return UsageError(f"cannot read the probes of {path}", why, f"-u {_FORM}")
