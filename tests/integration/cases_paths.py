"""Cases for `test_same_answers.py`: paths, methods, versions, discovery, who may."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import GROUP, Cases, ask, beacon, get, make, path, post, put, thing

__all__ = ["CASES"]

_ROOT = f"/apis/{GROUP}"


def _url(method: str, where: str, body: Any = None, **more: Any) -> list[Any]:
    return [ask(method, where, body, **more)]


def _families(body: str) -> list[str]:
    """The families of metrics of health checks, and the labels of one check of readiness that both have."""
    lines = [line for line in body.splitlines() if "healthcheck" in line]
    about = [line for line in lines if line.startswith("#")]
    return about + sorted(line.rpartition(" ")[0] for line in lines if 'name="ping"' in line and "readyz" in line)


_PATHS: Cases = {
    # What is in our index depends on what is served.
    "path-unknown": [ask("GET", "/nonsense", pick=lambda body: type(body).__name__)],
    **{
        f"path-missing-segment-{who}{name}": [ask("GET", where, stranger=bool(who))]
        for who in ("", "stranger-")
        for name, where in {
            "core": "/api/v1//nodes",
            "core-deep": "/api/v1//nodes/x",
            "core-namespace": "/api/v1/namespaces//pods",
            "core-query": "/api/v1//nodes?labelSelector=a",
            "version": "/api//nodes",
            "group": f"{_ROOT}/v1//things",
            "group-version": f"{_ROOT}//things",
            "apis": "/apis//v1/things",
            "end": "/api/v1/nodes//",
            "name": "/api/v1/namespaces/default//pods",
        }.items()
    },
    **{
        f"timeout-{name}": [ask("GET", f"{path('shirts', namespace='listed')}?timeout={value}", accept=accept)]
        for name, value, accept in (
            ("empty", "", "application/json"),
            ("word", "soon", "application/json"),
            ("negative", "-1s", "application/json"),
            ("zero", "0s", "application/json"),
            ("word-yaml", "soon", "application/yaml"),
            ("word-protobuf", "soon", "application/vnd.kubernetes.protobuf"),
            ("word-any", "soon", "*/*"),
            ("number", "5", "application/json"),
        )
    },
    "timeout-post": [ask("POST", f"{path('things')}?timeout=soon", thing())],
    "timeout-nothing": [ask("GET", "/nonsense?timeout=soon")],
    "metrics-slis": [
        ask("GET", "/readyz", compared=False),
        ask("GET", "/metrics/slis", pick=_families),
    ],
    "path-unknown-post": _url("POST", "/nonsense", {}),
    "path-unknown-group": _url("GET", "/apis/none.example.com"),
    "path-unknown-group-version": _url("GET", "/apis/none.example.com/v1"),
    "path-unknown-group-resource": _url("GET", "/apis/none.example.com/v1/things"),
    "path-unknown-version": _url("GET", f"{_ROOT}/v9/namespaces/same/things"),
    "path-unknown-version-document": _url("GET", f"{_ROOT}/v9"),
    "path-unserved-version": _url("GET", f"{_ROOT}/v1alpha1/namespaces/same/gadgets"),
    "path-other-resources-version": _url("GET", f"{_ROOT}/v1beta1/namespaces/same/things"),
    "path-unknown-resource": _url("GET", path("nothings")),
    "path-unknown-resource-name": _url("GET", path("nothings", "x")),
    "path-unknown-resource-post": _url("POST", path("nothings"), {}),
    "path-singular": _url("GET", path("thing")),
    "path-short-name": _url("GET", path("th")),
    "path-kind": _url("GET", path("Thing")),
    "path-unknown-subresource": [make(), get("$name/nonsense")],
    "path-unknown-subresource-put": [make(), put(thing(), name="$name/nonsense")],
    "path-unknown-subresource-of-missing": [get("$name/nonsense")],
    "path-below-subresource": [make(), get("$name/status/x")],
    "path-below-subresource-scaler": [make(thing("Scaler"), "scalers"), get("$name/status/x", resource="scalers")],
    "path-trailing-slash": _url("GET", path("shirts", namespace="listed") + "/"),
    "path-trailing-slash-name": _url("GET", path("shirts", "a", namespace="listed") + "/"),
    "path-double-slash": _url("GET", path("shirts", namespace="listed").replace("/shirts", "//shirts")),
    "path-double-slash-start": _url("GET", "/" + path("shirts", namespace="listed")),
    "path-dots": _url("GET", path("shirts", "../shirts", namespace="listed")),
    "path-encoded-dots": _url("GET", path("shirts", "%2E%2E", namespace="listed")),
    "path-namespaced-across": _url("GET", path("shirts", namespace="") + "/a"),
    "path-namespaced-across-post": _url("POST", path("things", namespace=""), thing()),
    "path-namespaced-across-post-with": _url("POST", path("things", namespace=""), thing(metadata={"namespace": "same"})),
    "path-namespaced-across-put": _url("PUT", path("things", "x", namespace=""), thing()),
    "path-namespaced-across-delete": _url("DELETE", path("things", "x", namespace="")),
    "path-cluster-in-namespace": _url("GET", path("beacons")),
    "path-cluster-in-namespace-name": _url("GET", path("beacons", "x")),
    "path-cluster-in-namespace-post": _url("POST", path("beacons"), beacon()),
    "path-empty-namespace": _url("GET", f"{_ROOT}/v1/namespaces//things?labelSelector=none"),
    "path-namespaces-only": _url("GET", f"{_ROOT}/v1/namespaces"),
    "path-namespace-only": _url("GET", f"{_ROOT}/v1/namespaces/same"),
    "path-proxy": _url("GET", f"{_ROOT}/v1/proxy/namespaces/same/things/x"),
    "path-watch-nothing": _url("GET", f"{_ROOT}/v1/watch"),
}

_METHODS: Cases = {
    "post-to-name": [make(), ask("POST", path("things", "$name"), thing())],
    "post-to-new-name": [ask("POST", path("things", "$name"), thing())],
    "options-collection": _url("OPTIONS", path("things")),
    "options-name": _url("OPTIONS", path("things", "x")),
    "trace-name": _url("TRACE", path("things", "x")),
    "connect-name": _url("PROPFIND", path("things", "x")),
    "put-collection-empty": _url("PUT", path("things")),
    "patch-collection-cluster": _url("PATCH", path("beacons", namespace=""), {}, kind="application/merge-patch+json"),
    "post-discovery": _url("POST", _ROOT, {}),
    "delete-discovery": _url("DELETE", f"{_ROOT}/v1"),
    "patch-version-document": _url("PATCH", f"{_ROOT}/v1", {}),
    "head-discovery": _url("HEAD", f"{_ROOT}/v1"),
    "head-namespace": _url("HEAD", "/api/v1/namespaces/same"),
    "head-namespaces": _url("HEAD", "/api/v1/namespaces"),
    "head-status": [make(thing("Scaler"), "scalers"), ask("HEAD", path("scalers", "$name/status"))],
    "head-scale": [make(thing("Scaler", spec={"replicas": 1}), "scalers"), ask("HEAD", path("scalers", "$name/scale"))],
    "head-watch-old-form": _url("HEAD", f"{_ROOT}/v1/watch/namespaces/listed/shirts?timeoutSeconds=1"),
    "options-namespaces": _url("OPTIONS", "/api/v1/namespaces"),
    "post-to-namespace": _url("POST", "/api/v1/namespaces/same", {"metadata": {"name": "same"}}),
}

_NAMESPACES = "/api/v1/namespaces"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{GROUP}"


def _namespace(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$name"}, **members}


def _only_namespaces(document: dict[str, Any]) -> Any:
    found = [entry for entry in document["resources"] if entry["name"].partition("/")[0] == "namespaces"]
    return {**document, "resources": sorted(found, key=lambda entry: str(entry["name"]))}


# Verbs that discovery does not list for what there is, and what `/finalize` does.
_UNLISTED: Cases = {
    "delete-namespaces": _url("DELETE", _NAMESPACES),
    "delete-namespaces-with-body": _url("DELETE", _NAMESPACES, {"kind": "DeleteOptions", "apiVersion": "v1"}),
    "patch-namespaces": _url("PATCH", _NAMESPACES, {}, kind="application/merge-patch+json"),
    "delete-default": _url("DELETE", f"{_NAMESPACES}/default"),
    "delete-kube-system": _url("DELETE", f"{_NAMESPACES}/kube-system"),
    "delete-kube-public-dry-run": _url("DELETE", f"{_NAMESPACES}/kube-public?dryRun=All"),
    "get-finalize": _url("GET", f"{_NAMESPACES}/same/finalize"),
    "patch-finalize": _url("PATCH", f"{_NAMESPACES}/same/finalize", {}, kind="application/merge-patch+json"),
    "post-finalize": _url("POST", f"{_NAMESPACES}/same/finalize", _namespace()),
    "delete-finalize": _url("DELETE", f"{_NAMESPACES}/same/finalize"),
    "delete-namespace-status": _url("DELETE", f"{_NAMESPACES}/same/status"),
    "post-namespace-status": _url("POST", f"{_NAMESPACES}/same/status", _namespace()),
    "get-reviews": _url("GET", _REVIEWS),
    "delete-reviews": _url("DELETE", _REVIEWS),
    "delete-review": _url("DELETE", f"{_REVIEWS}/x"),
    "patch-review": _url("PATCH", f"{_REVIEWS}/x", {}, kind="application/merge-patch+json"),
    "delete-definition-status": _url("DELETE", f"{_DEFINITION}/status"),
    "post-definition-status": _url("POST", f"{_DEFINITION}/status", {}),
    "post-scale": _url("POST", path("scalers", "x/scale"), {}),
    "delete-status": _url("DELETE", path("scalers", "x/status")),
    "discovery-namespaces": _url("GET", "/api/v1", pick=_only_namespaces),
    "finalize": [
        ask("POST", _NAMESPACES, _namespace(spec={"finalizers": ["example.com/x"]})),
        ask(
            "PUT",
            f"{_NAMESPACES}/$name/finalize",
            _namespace(spec={"finalizers": ["kubernetes", "example.com/y"]}, status={"phase": "Terminating"}),
        ),
        ask("PUT", f"{_NAMESPACES}/$name/finalize", _namespace(spec={"finalizers": ["mine"]})),
        ask("PUT", f"{_NAMESPACES}/$name/finalize", _namespace(spec={"finalizers": ["a b/c", "example.com/a/b"]})),
        ask("PUT", f"{_NAMESPACES}/$name/finalize", _namespace(spec={"finalizers": ["orphan"]}, metadata={"name": "other"})),
        ask("PUT", f"{_NAMESPACES}/$name/finalize?dryRun=All", _namespace(spec={})),
        ask("PUT", f"{_NAMESPACES}/$name/status", _namespace(status={"phase": "Terminating"})),
        ask("DELETE", f"{_NAMESPACES}/$name", compared=False),
        ask("PUT", f"{_NAMESPACES}/$name/finalize", _namespace(), pick=lambda answer: answer.get("spec")),
        ask("GET", f"{_NAMESPACES}/$name"),
    ],
    "finalize-missing": _url("PUT", f"{_NAMESPACES}/$name/finalize", _namespace()),
    "namespace-finalizer-mine": _url("POST", _NAMESPACES, _namespace(spec={"finalizers": ["mine"]})),
    "namespace-unconditional": [
        ask("POST", _NAMESPACES, _namespace(), compared=False),
        ask("PUT", f"{_NAMESPACES}/$name", _namespace(metadata={"name": "$name", "labels": {"a": "b"}})),
        ask("DELETE", f"{_NAMESPACES}/$name", compared=False),
    ],
}

_GADGET = thing("Gadget", spec={"size": 1, "color": "red"})

_VERSIONS: Cases = {
    "two-versions": [
        post(_GADGET, resource="gadgets"),
        ask("GET", path("gadgets", "$name", version="v1beta1")),
        ask("GET", path("gadgets", "$name", version="v1")),
    ],
    "two-versions-list": [
        make({**_GADGET, "metadata": {"name": "$name", "labels": {"case": "$name"}}}, "gadgets"),
        ask("GET", path("gadgets", version="v1beta1", labelSelector="case=$name")),
    ],
    "two-versions-write-old": [
        ask("POST", path("gadgets", version="v1beta1"), thing("Gadget", "v1beta1", spec={"size": 1, "old": "x"})),
        ask("GET", path("gadgets", "$name")),
    ],
    "two-versions-patch-old": [
        make(_GADGET, "gadgets"),
        ask("PATCH", path("gadgets", "$name", version="v1beta1"), {"spec": {"size": 4}}, kind="application/merge-patch+json"),
    ],
    "two-versions-put-old": [
        make(_GADGET, "gadgets"),
        ask(
            "PUT",
            path("gadgets", "$name", version="v1beta1"),
            thing("Gadget", "v1beta1", metadata={"resourceVersion": "$rv1"}, spec={"size": 4}),
        ),
    ],
    "two-versions-wrong-body": [ask("POST", path("gadgets", version="v1beta1"), _GADGET)],
    "two-versions-delete-old": [make(_GADGET, "gadgets"), ask("DELETE", path("gadgets", "$name", version="v1beta1"))],
    "two-versions-watch-old": [
        make({**_GADGET, "metadata": {"name": "$name-first"}}, "gadgets"),
        make(_GADGET, "gadgets"),
        ask(
            "GET",
            path("gadgets", version="v1beta1")
            + "?watch=1&timeoutSeconds=1&resourceVersion=$rv1&fieldSelector=metadata.name%3D$name",
        ),
    ],
    "deprecated-missing": [ask("GET", path("gadgets", "$name", version="v1beta1"))],
    "deprecated-custom-text": [ask("GET", path("gadgets", "$name", version="v1alpha2"))],
    "deprecated-refused": [ask("OPTIONS", path("gadgets", "$name", version="v1beta1"))],
}


def _our_group(document: Any) -> Any:
    """Of a document about all groups: ours. The others are each server's own."""
    entries = document.get("groups", document.get("items", []))
    ours = [entry for entry in entries if entry.get("name", entry.get("metadata", {}).get("name")) == GROUP]
    return {**{key: value for key, value in document.items() if key not in ("groups", "items")}, "ours": ours}


def _sorted_resources(document: Any) -> Any:
    """Upstream lists the resources of a version in no order."""
    return {**document, "resources": sorted(document["resources"], key=lambda entry: entry["name"])}


_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_DISCOVERY: Cases = {
    "discovery-groups": _url("GET", "/apis", pick=_our_group),
    "discovery-groups-slash": _url("GET", "/apis/", pick=_our_group),
    "discovery-groups-yaml": _url("GET", "/apis", accept="application/yaml", pick=_our_group),
    "discovery-groups-text": _url("GET", "/apis", accept="text/plain"),
    "discovery-groups-pretty": _url("GET", "/apis?pretty=true", pick=_our_group),
    "discovery-aggregated": _url("GET", "/apis", accept=_AGGREGATED, pick=_our_group),
    "discovery-aggregated-as-kubectl": _url(
        "GET", "/apis", accept=f"{_AGGREGATED},{_AGGREGATED.replace('v2', 'v2beta1')},application/json", pick=_our_group
    ),
    "discovery-aggregated-v2beta1": _url("GET", "/apis", accept=_AGGREGATED.replace("v2", "v2beta1"), pick=_our_group),
    "discovery-aggregated-unknown-version": _url("GET", "/apis", accept=_AGGREGATED.replace("v2", "v3")),
    "discovery-group": _url("GET", _ROOT),
    "discovery-group-slash": _url("GET", f"{_ROOT}/"),
    "discovery-group-yaml": _url("GET", _ROOT, accept="application/yaml"),
    "discovery-group-text": _url("GET", _ROOT, accept="text/plain"),
    "discovery-group-aggregated": _url("GET", _ROOT, accept=_AGGREGATED),
    "discovery-group-aggregated-or-json": _url("GET", _ROOT, accept=f"{_AGGREGATED},application/json"),
    "discovery-version": _url("GET", f"{_ROOT}/v1", pick=_sorted_resources),
    "discovery-version-slash": _url("GET", f"{_ROOT}/v1/", pick=_sorted_resources),
    "discovery-version-beta": _url("GET", f"{_ROOT}/v1beta1", pick=_sorted_resources),
    "discovery-version-unserved": _url("GET", f"{_ROOT}/v1alpha1"),
    "discovery-version-yaml": _url("GET", f"{_ROOT}/v1", accept="application/yaml", pick=_sorted_resources),
    "discovery-version-pretty": _url("GET", f"{_ROOT}/v1?pretty=1", pick=_sorted_resources),
}

_WHO: Cases = {
    "token-bad": _url("GET", path("things"), authorization="Bearer nonsense", stranger=True),
    "token-empty": _url("GET", path("things"), authorization="Bearer ", stranger=True),
    "token-basic": _url("GET", path("things"), authorization="Basic YTpi", stranger=True),
    "stranger-list": _url("GET", path("things"), stranger=True),
    "stranger-get": _url("GET", path("things", "x"), stranger=True),
    "stranger-post": _url("POST", path("things"), thing(), stranger=True),
    "stranger-watch": _url("GET", path("things", watch="true"), stranger=True),
    "stranger-cluster-scoped": _url("GET", path("beacons", namespace=""), stranger=True),
    "stranger-subresource": _url("GET", path("scalers", "x/status"), stranger=True),
    "stranger-delete-collection": _url("DELETE", path("things"), stranger=True),
    "stranger-unknown-path": _url("GET", "/nonsense", stranger=True),
    "stranger-yaml": _url("GET", path("things"), accept="application/yaml", stranger=True),
    "impersonated": _url("GET", path("things"), impersonate_user="nobody"),
    "impersonated-groups-only": _url("GET", path("things"), impersonate_group="a"),
    "impersonated-patch": _url("PATCH", path("things", "x"), {}, kind="application/merge-patch+json", impersonate_user="nobody"),
    "timeout-nonsense-post": [ask("POST", path("things") + "?timeout=abc", thing())],
    "timeout-zero": [ask("GET", path("things", namespace="listed", timeout="0s"))],
    "timeout-nonsense-watch": [ask("GET", path("things", namespace="listed", watch="1", timeoutSeconds="1", timeout="abc"))],
}

CASES: Cases = {**_PATHS, **_METHODS, **_UNLISTED, **_VERSIONS, **_DISCOVERY, **_WHO}
