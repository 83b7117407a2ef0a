"""JSON objects that come as texts, from a job: nothing about them is sure."""

from __future__ import annotations

import json


def members(text: str) -> dict[str, str | int]:
    """The members of a JSON object that are texts or whole numbers; none of what is no object."""
    try:
        decoded = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    known = decoded.items() if isinstance(decoded, dict) else ()
    return {key: value for key, value in known if isinstance(value, (str, int))}


def is_list(text: str) -> bool:
    """Whether a text is a JSON list."""
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False
