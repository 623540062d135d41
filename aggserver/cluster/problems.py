"""Problems: what is wrong now, for those who tell of a problem when it is new, and not while it persists."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

__all__ = ["Problems"]


class Problems:
    """The present problem of each of some subjects, or of one that needs no name."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def changed(self, problem: str, subject: str = "") -> bool:
        """Note the problem of a subject, '' for none. Returns whether that is another state than before."""
        before = self._of.pop(subject, "")
        if problem:
            self._of[subject] = problem
        return problem != before

    def subjects(self) -> AbstractSet[str]:
        """Those that have one."""
        return self._of.keys()
