"""AdmissionObserver: what admission reports for metrics.

Source: k8s.io/apiserver pkg/admission/metrics/metrics.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.admission.chain import Attributes, Mutating, ObserveStep, OfResources, Selective, Validating
from aggserver.meta.json_types import JSONObject

__all__ = ["NOBODY", "AdmissionObserver", "ObservedMutating", "ObservedValidating", "steps"]


class AdmissionObserver:
    """Its methods do nothing; a subclass overrides those that it needs.

    kind: `admit` for mutating admission, `validate` for validating admission, `validating` for validating webhooks. operation:
    such as CREATE.
    """

    def step(self, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        """All plugins of one kind have handled an object, or one of them has rejected it."""

    def controller(self, name: str, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        """A plugin has handled an object."""

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


NOBODY = AdmissionObserver()


def steps(observer: AdmissionObserver, monotonic: Callable[[], float]) -> ObserveStep:
    """The `observe` of a Chain: reports to the observer how long each step took. monotonic: a clock in seconds."""

    def start(kind: str, operation: str) -> Callable[[bool], None]:
        started = monotonic()
        return lambda rejected: observer.step(kind, operation, monotonic() - started, rejected=rejected)

    return start


class _Observed:
    """A plugin whose calls are counted and timed. Requests that do not concern the plugin are not counted, unlike upstream."""

    def __init__(self, name: str, plugin: object, observer: AdmissionObserver, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._observer = observer
        self._monotonic = monotonic
        if isinstance(plugin, Selective):
            self.concerns = plugin.concerns
        if isinstance(plugin, OfResources):
            self.resources = plugin.resources

    def _report(self, kind: str, attributes: Attributes, started: float, *, rejected: bool) -> None:
        seconds = self._monotonic() - started
        self._observer.controller(self._name, kind, attributes.operation, seconds, rejected=rejected)


class ObservedMutating(_Observed):
    def __init__(self, name: str, plugin: Mutating, observer: AdmissionObserver, monotonic: Callable[[], float]) -> None:
        super().__init__(name, plugin, observer, monotonic)
        self._plugin = plugin

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        started, rejected = self._monotonic(), True
        try:
            changed = await self._plugin.mutate(attributes, obj, old)
            rejected = False
        finally:
            self._report("admit", attributes, started, rejected=rejected)
        return changed


class ObservedValidating(_Observed):
    def __init__(self, name: str, plugin: Validating, observer: AdmissionObserver, monotonic: Callable[[], float]) -> None:
        super().__init__(name, plugin, observer, monotonic)
        self._plugin = plugin

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        started, rejected = self._monotonic(), True
        try:
            await self._plugin.validate(attributes, obj, old)
            rejected = False
        finally:
            self._report("validate", attributes, started, rejected=rejected)
