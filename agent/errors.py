"""What goes wrong, in the three parts a user needs: what, why, what to do."""

from __future__ import annotations


class AgentError(Exception):
    """The one exception of the agent.

    Attributes:
        code: the exit code for a command line: 1 failure, 2 usage, 3 environment unmet.
    """

    def __init__(self, error: str, cause: str, fix: str, code: int = 1) -> None:
        super().__init__(f"{error}: {cause}; {fix}")
        self.error = error
        self.cause = cause
        self.fix = fix
        self.code = code

    def message(self) -> dict[str, object]:
        """As the socket protocol carries it."""
        return {"ok": False, "error": self.error, "cause": self.cause, "fix": self.fix, "code": self.code}
