"""InUse: counts the requests that are under way to a resource, so that what they use is given up only after the last of them.

As in upstream, requests that have begun when a definition is deleted or changed end as they would have otherwise.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (tearDown), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["InUse"]


class InUse:
    """A context manager that is entered for each request, by several at the same time."""

    __slots__ = ("_count", "_then")

    def __init__(self) -> None:
        self._count = 0
        self._then: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *error: object) -> None:
        self._count -= 1
        if not self._count and self._then:
            due, self._then = self._then, []
            for then in due:
                then()

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call `then` when no request is under way: now, or at the end of the last one. Requests end at their deadline."""
        if self._count:
            self._then.append(then)
        else:
            then()
