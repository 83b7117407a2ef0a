"""Runs in every Python that ``pillion run`` starts: PYTHONPATH leads here. Any Python can read it, 2.7 included.

It leaves things as they are without it: this folder goes off sys.path, and the sitecustomize that would have run does,
under its own name and with its own errors.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))

if "PILLION_LIBRARY" in os.environ and sys.version_info >= (3, 7):
    __import__("pillion_startup").start(os.environ["PILLION_LIBRARY"])

sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry or ".") != _here]
del sys.modules["sitecustomize"]
__import__("sitecustomize")
