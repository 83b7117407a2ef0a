"""``pillion demo``: records an example job, the torch one where it can run, and shows what is found."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import pillion
from pillion.commands import run as run_verb

HELP = "record an example job and show what is found"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_verb.add_options(parser)


def run(args: argparse.Namespace) -> int:
    args.command = [sys.executable, *_job()]
    return run_verb.run(args)


def _job() -> list[str]:
    """The torch example of this checkout, or the plain job that every installation has."""
    script = Path(pillion.__file__).resolve().parent.parent / "examples" / "train_cifar.py"
    if script.exists() and importlib.util.find_spec("torch"):
        return [str(script)]
    return ["-m", "pillion.demo_job"]
