"""Problems: remembers the present problems, so that each is logged when it is new, and not again while it persists."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

__all__ = ["Problems"]


class Problems:
    """The present problems of several subjects, at most one each; the only subject needs no name."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def changed(self, problem: str, subject: str = "") -> bool:
        """Set the problem of a subject, '' for none. Returns whether it differs from the one before."""
        before = self._of.pop(subject, "")
        if problem:
            self._of[subject] = problem
        return problem != before

    def subjects(self) -> AbstractSet[str]:
        """The subjects that have a problem."""
        return self._of.keys()
