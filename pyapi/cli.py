"""The command line: finds the verb, and is the one place that turns an error into a line on stderr and an exit code.

Exit codes: 0 ok, 1 failure, 2 usage, 3 something the machine lacks, 130 aborted, the command's own for ``run``.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import sys
from collections.abc import Sequence
from typing import NoReturn

from pillion import __version__
from pillion._errors import PillionError, UsageError
from pillion._interrupts import Aborted
from pillion._standard_streams import open_missing_streams, say, silence

VERBS = ("run", "record", "report", "export", "import", "doctor", "agent", "demo")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError("wrong usage", message, f"`{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: without the program's name; None for the process's own.

    Returns:
        The exit code.
    """
    open_missing_streams()
    try:
        args = _parser().parse_args(arguments)
        code = int(args.run(args))
        sys.stdout.flush()
    except PillionError as error:
        return _say(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _say("aborted", Aborted.exit_code)
    except BrokenPipeError:
        silence(sys.stdout.fileno())  # the reader of our output has seen enough
        return 1
    except OSError as error:
        return _say(f"failed: {error}; see `pillion doctor`", 1)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pillion", description="Rides along with a job and tells where its time went.")
    parser.add_argument("--version", action="version", version=f"pillion {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name in VERBS:
        module = importlib.import_module(f"pillion.commands.{name}{'_' * keyword.iskeyword(name)}")
        verb = verbs.add_parser(name, help=module.HELP, description=module.__doc__)
        module.add_arguments(verb)
        verb.set_defaults(run=module.run)
    return parser


def _say(line: str, code: int) -> int:
    say(f"pillion: {line}")
    return code
