"""Serves external and custom metrics: each is a path whose answer is computed, and no resource with objects.

External metrics are listed by their name (`/namespaces/NS/METRIC`), custom ones are read below the object that they are of
(`/namespaces/NS/pods/NAME/METRIC`, with `*` for all that a selector matches), and those of a namespace below `metrics`. RBAC sees
these paths as they are: `list` on the metric, `get` on `pods/METRIC`, `get` on `metrics`.
Source: sigs.k8s.io/custom-metrics-apiserver pkg/apiserver/installer, v1.36; k8s.io/metrics pkg/client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aggserver.admission.chain import Chain
from aggserver.endpoints.served import Endpoint, Served
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.registry.rest import Context
from aggserver.resources.calls import Calls
from aggserver.resources.commit import asked
from aggserver.resources.errors import Unavailable, named
from aggserver.resources.metrics import (
    CUSTOM_VERSIONS,
    CustomMetric,
    ExternalMetric,
    MetricRequest,
    custom_values,
    external_values,
    metric_not_found,
)
from aggserver.resources.requests import Labels

__all__ = ["CUSTOM", "EXTERNAL", "AppMetrics"]

EXTERNAL = "external.metrics.k8s.io"
CUSTOM = "custom.metrics.k8s.io"
_OF_NAMESPACES = "namespaces"


class AppMetrics:
    """The resources of all metrics of one App. clock: seconds since the epoch. state: of the App; raises 503 if there is none."""

    def __init__(
        self,
        external: Sequence[ExternalMetric],
        custom: Sequence[CustomMetric],
        calls: Calls,
        state: Callable[[], Any],
        clock: Callable[[], float],
        seconds: float,
    ) -> None:
        self._external = external
        self._custom = custom
        self._calls = calls
        self._state = state
        self._clock = clock
        self._seconds = seconds

    def resources(self) -> list[Served]:
        """One for each external metric, for each resource that has custom ones, and for those of namespaces."""
        found: list[Served] = [
            _served(
                EXTERNAL,
                "v1beta1",
                metric.name,
                "ExternalMetricValueList",
                {"": _External(self, metric)},
                "list",
                namespaced=True,
            )
            for metric in self._external
        ]
        by_resource: dict[str, dict[str, CustomMetric]] = {}
        for metric in self._custom:
            by_resource.setdefault(metric.resource, {})[metric.name] = metric
        for version in CUSTOM_VERSIONS:
            found += [self._resource(version, resource, metrics) for resource, metrics in by_resource.items()]
        return found

    def _resource(self, version: str, resource: str, metrics: Mapping[str, CustomMetric]) -> Served:
        if resource == _OF_NAMESPACES:
            rests: dict[str, _Rest] = {"": _OfNamespace(self, metrics, version)}
            return _served(CUSTOM, version, "metrics", "MetricValueList", rests, "get", namespaced=True)
        rests = {name: _Custom(self, metric, version) for name, metric in metrics.items()}
        namespaced = next(iter(metrics.values())).namespaced
        return _served(CUSTOM, version, resource, "MetricValueList", rests, "get", namespaced=namespaced)

    async def answer(self, function: Callable[..., Any], request: MetricRequest[Any], resource: str) -> Any:
        try:
            return await self._calls.read(function, request, seconds=min(self._seconds, request.seconds_left))
        except StatusError as error:
            raise named(error, ResourceInfo("", "", resource, "", "", namespaced=False), request.name) from None

    def request(self, context: Context, metric: str, selectors: Mapping[str, str], name: str = "") -> MetricRequest[Any]:
        """selectors: `labels` and `objects` -> the parameters of the URL that have them."""
        plain = asked(context)
        values = {each: getattr(plain, each) for each in plain.__dataclass_fields__}
        values |= {each: _selector(plain.query.get(parameter, "")) for each, parameter in selectors.items()}
        return MetricRequest(**values | {"state": self._state(), "name": name}, metric=metric)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _selector(text: str) -> Labels:
    try:
        return Labels(LabelSelector.parse(text))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None


class _Rest:
    """The Connecter of a metric."""

    def __init__(self, metrics: AppMetrics) -> None:
        self._metrics = metrics

    async def connect(self, context: Context, body: Any, *, dry_run: bool) -> JSONObject | AsyncIterator[bytes]:
        try:
            return await self.answer(context)
        except Unavailable as error:
            # Without Retry-After: client-go would wait and try again ten times, and the autoscaler with it, for all of its work.
            raise errors.service_unavailable(error.message) from None

    async def answer(self, context: Context) -> JSONObject:
        raise NotImplementedError


class _External(_Rest):
    def __init__(self, metrics: AppMetrics, metric: ExternalMetric) -> None:
        super().__init__(metrics)
        self._metric = metric

    async def answer(self, context: Context) -> JSONObject:
        request = self._metrics.request(context, self._metric.name, {"labels": "labelSelector"})
        result = await self._metrics.answer(self._metric.function, request, self._metric.name)
        return external_values(self._metric, result, request.labels, self._metrics.now())


class _Custom(_Rest):
    def __init__(self, metrics: AppMetrics, metric: CustomMetric, version: str) -> None:
        super().__init__(metrics)
        self._metric = metric
        self._version = version

    async def answer(self, context: Context) -> JSONObject:
        return await self.of(context, context.name)

    async def of(self, context: Context, name: str) -> JSONObject:
        selectors = {"labels": "metricLabelSelector", "objects": "labelSelector"}
        request = self._metrics.request(context, self._metric.name, selectors, name)
        result = await self._metrics.answer(self._metric.function, request, self._metric.resource)
        return custom_values(self._metric, result, request, self._metrics.now(), self._version)


class _OfNamespace(_Rest):
    """Metrics of namespaces, whose path has the namespace as such and the metric as a name."""

    def __init__(self, metrics: AppMetrics, of_namespaces: Mapping[str, CustomMetric], version: str) -> None:
        super().__init__(metrics)
        self._of_namespaces = of_namespaces
        self._version = version

    async def answer(self, context: Context) -> JSONObject:
        metric = self._of_namespaces.get(context.name)
        if metric is None:
            raise metric_not_found(context.name, _OF_NAMESPACES, context.namespace)
        return await _Custom(self._metrics, metric, self._version).of(context, context.namespace)


def _served(group: str, version: str, name: str, kind: str, rests: Mapping[str, _Rest], verb: str, *, namespaced: bool) -> Served:
    """A path. rests: by subresource. verb: that RBAC sees.

    In discovery these resources can be read, and nothing else: `get` is what upstream lists for all of them.
    """
    info = ResourceInfo(group, version, name, kind, kind, namespaced=namespaced)
    below = tuple(APISubresource(each, kind, ("get",)) for each in sorted(rests) if each)
    listed = APIResource(info, ("get",) if "" in rests else (), subresources=below)
    endpoints = {each: Endpoint(rest, lambda obj: [], connects=True, verbs=(verb,)) for each, rest in rests.items()}
    return Served(Published(APIResource(info, ())), endpoints.get, Chain(), listed=listed, in_storage=False)
