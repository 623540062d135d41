"""AdmissionObserver: what admission reports of itself, for metrics.

Source: k8s.io/apiserver pkg/admission/metrics/metrics.go, v0.36.3.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["NOBODY", "AdmissionObserver"]


class AdmissionObserver(Protocol):
    """kind: `admit` of mutating, `validate` of validating admission, `validating` of its webhooks. operation: as CREATE."""

    def step(self, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        """All plugins of one kind have had an object."""

    def controller(self, name: str, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        """A plugin has had an object."""

    def webhook(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        """A webhook was called. code: of HTTP; 200 if it allowed the request, 0 for an error of this server."""

    def webhook_rejection(self, name: str, kind: str, operation: str, error: str, code: int) -> None:
        """A request was refused. error: no_error, calling_webhook_error or apiserver_internal_error."""

    def webhook_failed_open(self, name: str, kind: str) -> None:
        """A webhook that could not be called was ignored."""

    def conditions_excluded(self, name: str, kind: str, operation: str) -> None:
        """A webhook was not called, since its matchConditions do not hold."""

    def conditions_failed(self, name: str, kind: str, operation: str) -> None:
        """One of a webhook's matchConditions could not be evaluated."""


class _Nobody:
    def step(self, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        pass

    def controller(self, name: str, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        pass

    def webhook(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        pass

    def webhook_rejection(self, name: str, kind: str, operation: str, error: str, code: int) -> None:
        pass

    def webhook_failed_open(self, name: str, kind: str) -> None:
        pass

    def conditions_excluded(self, name: str, kind: str, operation: str) -> None:
        pass

    def conditions_failed(self, name: str, kind: str, operation: str) -> None:
        pass


NOBODY: AdmissionObserver = _Nobody()
