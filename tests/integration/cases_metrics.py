"""Cases for `test_metrics_adapter.py`: what autoscalers and people ask of the APIs of custom and external metrics."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import Cases, ask

__all__ = ["CASES", "CUSTOM", "DIFFERENT", "EXTERNAL", "VERSIONS"]

EXTERNAL = "external.metrics.k8s.io"
CUSTOM = "custom.metrics.k8s.io"
VERSIONS = {EXTERNAL: ["v1beta1"], CUSTOM: ["v1beta1", "v1beta2"]}


def _by_name(body: Any) -> Any:
    """The items of a list, whose order means nothing."""
    items = body.get("items") if isinstance(body, dict) else None
    return {**body, "items": sorted(items, key=str)} if isinstance(items, list) else body


def external(metric: str, query: str = "", method: str = "GET", **more: Any) -> Any:
    body = {} if method == "POST" else None
    where = f"/apis/{EXTERNAL}/v1beta1/namespaces/default/{metric}{query and '?'}{query}"
    return ask(method, where, body, pick=_by_name, **more)


_EXTERNAL: Cases = {
    "external-all": [external("my-external-metric")],
    "external-selected": [external("my-external-metric", "labelSelector=foo%3Dbar")],
    "external-set": [external("my-external-metric", "labelSelector=foo+in+(baz,no)")],
    "external-none-selected": [external("my-external-metric", "labelSelector=foo%3Dno")],
    "external-without-labels": [external("other-external-metric")],
    "external-unknown": [external("no-such-metric")],
    "external-bad-selector": [external("my-external-metric", "labelSelector=a%3D%3D%3D")],
    "external-by-name": [ask("GET", f"/apis/{EXTERNAL}/v1beta1/namespaces/default/my-external-metric/x")],
    "external-cluster-wide": [ask("GET", f"/apis/{EXTERNAL}/v1beta1/my-external-metric")],
    "external-post": [external("my-external-metric", method="POST")],
    "external-delete": [external("my-external-metric", method="DELETE")],
    "external-stranger": [external("my-external-metric", stranger=True)],
    "external-group": [ask("GET", f"/apis/{EXTERNAL}")],
    "external-discovery": [ask("GET", f"/apis/{EXTERNAL}/v1beta1")],
    "custom-group": [ask("GET", f"/apis/{CUSTOM}")],
}


def _custom(version: str) -> Cases:
    def custom(where: str, query: str = "", method: str = "GET", **more: Any) -> Any:
        body = {} if method == "POST" else None
        return ask(method, f"/apis/{CUSTOM}/{version}/{where}{query and '?'}{query}", body, pick=_by_name, **more)

    pods, services = "namespaces/default/pods", "namespaces/default/services"
    cases: Cases = {
        "discovery": [custom("")],
        "pods": [custom(f"{pods}/*/requests-per-second")],
        "pods-selected": [custom(f"{pods}/*/requests-per-second", "labelSelector=app%3Dweb")],
        "pods-none-selected": [custom(f"{pods}/*/requests-per-second", "labelSelector=app%3Dno")],
        "pods-by-another-metric": [custom(f"{pods}/*/no-such-metric")],
        "pod": [custom(f"{pods}/web-1/requests-per-second")],
        "pod-without-a-number": [custom(f"{pods}/web-9/requests-per-second")],
        "pod-by-another-metric": [custom(f"{pods}/web-1/no-such-metric")],
        "pods-of-another-namespace": [custom("namespaces/kube-system/pods/*/requests-per-second")],
        "bad-selector": [custom(f"{pods}/*/requests-per-second", "labelSelector=a%3D%3D%3D")],
        "bad-metric-selector": [custom(f"{services}/web/latency", "metricLabelSelector=a%3D%3D%3D")],
        "service": [custom(f"{services}/web/latency")],
        "service-selected": [custom(f"{services}/web/latency", "metricLabelSelector=verb%3DGET")],
        "service-set": [custom(f"{services}/web/latency", "metricLabelSelector=verb+in+(GET,PUT),!code")],
        "service-none-selected": [custom(f"{services}/web/latency", "metricLabelSelector=verb%3DPUT")],
        "services": [custom(f"{services}/*/latency")],
        "node": [custom("nodes/node-1/watts")],
        "nodes": [custom("nodes/*/watts")],
        "node-without-a-number": [custom("nodes/node-2/watts")],
        "namespace": [custom("namespaces/default/metrics/cost")],
        "namespace-without-a-number": [custom("namespaces/kube-system/metrics/cost")],
        "namespace-by-another-metric": [custom("namespaces/default/metrics/no-such-metric")],
        "unknown-resource": [custom("namespaces/default/gadgets/web/latency")],
        "object-without-a-metric": [custom(f"{pods}/web-1")],
        "objects-without-a-metric": [custom(pods)],
        "post": [custom(f"{pods}/web-1/requests-per-second", method="POST")],
        "delete": [custom(f"{pods}/web-1/requests-per-second", method="DELETE")],
        "stranger": [custom(f"{pods}/web-1/requests-per-second", stranger=True)],
    }
    return {f"{name}-{version}": case for name, case in cases.items()}


CASES: Cases = {**_EXTERNAL, **_custom("v1beta1"), **_custom("v1beta2")}

_OWN_TEXT = "the answer is that to a request for any other resource here, and all of them are 404 or 405"
_UNKNOWN = "the test-adapter has all metrics that one asks for, without a number; here it is 404, as for one object"
_NAMES = "the test-adapter does not list what it has, but one fixed name"

# Case -> why the answers differ.
DIFFERENT: dict[str, str] = {
    "external-unknown": _UNKNOWN,
    "external-by-name": _OWN_TEXT,
    "external-cluster-wide": _OWN_TEXT,
    "external-post": _OWN_TEXT,
    "external-delete": _OWN_TEXT,
    "external-discovery": _NAMES,
} | {
    f"{name}-{version}": why
    for version in VERSIONS[CUSTOM]
    for name, why in {
        "discovery": _NAMES,
        "pods-by-another-metric": _UNKNOWN,
        "pod-by-another-metric": _OWN_TEXT,
        "bad-metric-selector": "a selector that can't be read is a 500 there, and a 400 for the other selector of both",
        "namespace": "the test-adapter keeps numbers of namespaces as those of objects in a namespace, and reads them as others",
        "unknown-resource": "a resource that the cluster does not have is a 500 there",
        "object-without-a-metric": _OWN_TEXT,
        "objects-without-a-metric": _OWN_TEXT,
        "post": _OWN_TEXT,
        "delete": _OWN_TEXT,
    }.items()
}
