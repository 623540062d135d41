"""InUse: counts the running requests of a resource, so that the resources that they use are released after the last one.

As in upstream, requests that are running when a definition is deleted or changed are finished as if it were not.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (tearDown), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["InUse"]


class InUse:
    """A context manager that is entered for each request, by several at the same time."""

    __slots__ = ("_callbacks", "_count")

    def __init__(self) -> None:
        self._count = 0
        self._callbacks: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *error: object) -> None:
        self._count -= 1
        if not self._count and self._callbacks:
            due, self._callbacks = self._callbacks, []
            for callback in due:
                callback()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call `callback` when no request is running: now, or at the end of the last one. Requests end at their deadline."""
        if self._count:
            self._callbacks.append(callback)
        else:
            callback()
