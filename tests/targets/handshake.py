"""What a victim and its test say to each other, over the victim's stdin and stdout.

    victim → test    ready {"pid": 4821, …}     it is set up; nothing that the test counts has happened yet
    test → victim    (a line, or end of file)   only with --wait: begin
    victim → test    {"seven_ns": …}            the last line: the known answer

Nobody sleeps to wait for the other.
"""

import argparse
import json
import os
import sys
import threading


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the --wait that every victim has; description is the victim's docstring."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--wait", action="store_true", help="after 'ready', wait for a line on stdin")
    return result


def ready(args: argparse.Namespace, **facts: object) -> None:
    """Say that the victim is set up, and wait for the word to begin if the command line asked for it."""
    print("ready", json.dumps({"pid": os.getpid(), "tid": threading.get_native_id()} | facts), flush=True)
    if args.wait:
        sys.stdin.readline()


def answer(**facts: object) -> None:
    """Print the known answer, the last thing that a victim does."""
    print(json.dumps(facts), flush=True)
