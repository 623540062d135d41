"""Cases for `test_same_answers.py`: get, list, media types, tables, watches, `/status`, `/scale`.

Lists are of the namespace `listed` (shirts) and of nothing else, which no case changes; `test_same_answers.py` fills it.
"""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import (
    GROUP,
    JSON_PATCH,
    Ask,
    Cases,
    ask,
    delete,
    get,
    make,
    patch,
    path,
    post,
    put,
    thing,
)

__all__ = ["CASES", "LISTED"]


def _shirt(name: str, color: str, size: str, **labels: str) -> dict[str, Any]:
    spec = {"color": color, "size": size, "price": 10}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Shirt", "metadata": {"name": name, "labels": labels}, "spec": spec}


LISTED = (
    _shirt("a", "blue", "S", tier="front", env="prod"),
    _shirt("b", "blue", "M", tier="back"),
    _shirt("c", "green", "M", env="test"),
    _shirt("d", "green", "L", tier="front", env="test"),
    _shirt("e", "red", "L"),
)


def _list(accept: str = "application/json", **query: Any) -> list[Ask]:
    return [ask("GET", path("shirts", namespace="listed", **query), accept=accept)]


def _one(accept: str, query: str = "") -> list[Ask]:
    return [ask("GET", path("shirts", "a", namespace="listed") + query, accept=accept)]


def _as(kind: str, version: str = "v1", more: str = "") -> str:
    return f"application/json;as={kind};g=meta.k8s.io;v={version}{more}"


def _in_protobuf(kind: str) -> str:
    return f"application/vnd.kubernetes.protobuf;as={kind};g=meta.k8s.io;v=v1"


def _resources_by_name(body: Any) -> Any:
    """Of an APIResourceList, which comes in no order upstream; the hashes are of Go types."""
    return {each.pop("name"): {**each, "storageVersionHash": ""} for each in body["resources"]}


_GET: Cases = {
    "get-missing": [get()],
    "get-revision-zero": [make(), get(query="resourceVersion=0")],
    "get-revision-right": [make(), get(query="resourceVersion=$rv1")],
    "get-revision-huge": [make(), get(query="resourceVersion=999999999")],
    "get-revision-nonsense": [make(), get(query="resourceVersion=abc")],
    "get-revision-negative": [make(), get(query="resourceVersion=-1")],
    "get-name-upper-case": [ask("GET", path("things", "UPPER"))],
    "get-name-percent": [ask("GET", path("things", "a%2Fb"))],
    "get-name-bad-percent": [ask("GET", path("things", "a%25b"))],
    "get-unknown-parameter": [make(), get(query="nonsense=1")],
    "head": [make(), ask("HEAD", path("things", "$name"))],
    "head-missing": [ask("HEAD", path("things", "$name"))],
    "head-list": [ask("HEAD", path("shirts", namespace="listed"))],
    "get-pretty": _one("application/json", "?pretty=true"),
    "get-pretty-one": _one("application/json", "?pretty=1"),
    "get-pretty-false": _one("application/json", "?pretty=false"),
    "get-pretty-nonsense": _one("application/json", "?pretty=x"),
    "get-pretty-accept": _one("application/json;pretty=1"),
    "get-pretty-curl": [ask("GET", path("shirts", "a", namespace="listed"), user_agent="curl/8.0")],
    "get-pretty-browser": [
        ask("GET", path("shirts", "a", namespace="listed"), user_agent="Mozilla/5.0 x", accept="text/html,*/*;q=0.1")
    ],
    "error-pretty": [get(query="pretty=true")],
    "get-yaml": _one("application/yaml"),
    "error-yaml": [ask("GET", path("things", "$name"), accept="application/yaml")],
    "accept-none": _one(""),
    "accept-any": _one("*/*"),
    "accept-application": _one("application/*"),
    "accept-text": _one("text/plain"),
    "accept-protobuf": _one("application/vnd.kubernetes.protobuf"),
    "accept-protobuf-or-json": _one("application/vnd.kubernetes.protobuf,application/json"),
    "error-protobuf": [ask("GET", path("things", "$name"), accept="application/vnd.kubernetes.protobuf,application/json")],
    "error-protobuf-metadata": [ask("GET", path("things", "$name"), accept=_in_protobuf("PartialObjectMetadata"))],
    "discovery-protobuf": [ask("GET", f"/apis/{GROUP}", accept="application/vnd.kubernetes.protobuf")],
    "discovery-resources-protobuf": [
        ask("GET", f"/apis/{GROUP}/v1", accept="application/vnd.kubernetes.protobuf", pick=_resources_by_name)
    ],
    "accept-cbor": _one("application/cbor"),
    "accept-weights": _one("application/json;q=0.1,application/yaml"),
    "accept-json-or-text": _one("text/plain,application/json"),
    "accept-nonsense": _one("nonsense"),
    "accept-charset": _one("application/json;charset=utf-8"),
    "accept-stream": _one("application/json;stream=watch"),
    "error-not-acceptable": [ask("GET", path("things", "$name"), accept="text/plain")],
}

_LIST: Cases = {
    "list": _list(),
    "list-across-namespaces": [ask("GET", path("shirts", namespace="", fieldSelector="metadata.namespace=listed"))],
    "list-yaml": _list("application/yaml"),
    "list-pretty": _list(pretty="true"),
    "list-limit": _list(limit=2),
    "list-limit-all": _list(limit=5),
    "list-limit-one-less": _list(limit=4),
    "list-limit-zero": _list(limit=0),
    "list-limit-negative": _list(limit=-1),
    "list-limit-huge": _list(limit=999999999999),
    "list-limit-too-huge": _list(limit="99999999999999999999"),
    "list-limit-nonsense": _list(limit="abc"),
    "list-limit-empty": _list(limit=""),
    "list-limit-selector": _list(limit=1, labelSelector="tier"),
    "list-continue": [*_list(limit=2), *_list(limit=2, continue_="$continue1"), *_list(limit=2, continue_="$continue2")],
    "list-continue-rest": [*_list(limit=2), *_list(continue_="$continue1")],
    "list-continue-revision": [*_list(limit=2), *_list(limit=2, continue_="$continue1", resourceVersion="1")],
    "list-continue-revision-zero": [*_list(limit=2), *_list(limit=2, continue_="$continue1", resourceVersion="0")],
    "list-continue-match": [
        *_list(limit=2),
        *_list(limit=2, continue_="$continue1", resourceVersion="1", resourceVersionMatch="Exact"),
    ],
    "list-continue-nonsense": _list(continue_="nonsense"),
    "list-continue-not-base64": _list(continue_="%%%"),
    "list-continue-not-json": _list(continue_="YWJj"),
    "list-continue-other-version": _list(continue_="eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6ImEifQ"),
    "list-continue-no-start": _list(continue_="eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0"),
    "list-continue-no-revision": _list(continue_="eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJzdGFydCI6ImEifQ"),
    "list-continue-outside": _list(continue_="eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi9hIn0"),
    "list-continue-other-resource": [
        *_list(limit=2),
        ask("GET", path("things", namespace="listed", limit=2, continue_="$continue1")),
    ],
    "list-revision-zero": _list(resourceVersion=0),
    "list-revision-zero-limit": _list(resourceVersion=0, limit=2),
    "list-revision-nonsense": _list(resourceVersion="abc"),
    "list-revision-negative": _list(resourceVersion="-1"),
    "list-revision-huge": _list(resourceVersion=999999999),
    "list-revision-huge-exact": _list(resourceVersion=999999999, resourceVersionMatch="Exact"),
    "list-revision-huge-limit": _list(resourceVersion=999999999, limit=1),
    "list-revision-exact": [*_list(), *_list(resourceVersion="$rv1", resourceVersionMatch="Exact")],
    "list-revision-exact-past": [
        post(thing(metadata={"labels": {"case": "$name"}})),
        patch({"spec": {"size": 7}}),
        ask("GET", path("things", resourceVersion="$rv1", resourceVersionMatch="Exact", labelSelector="case=$name")),
        ask("GET", path("things", resourceVersion="$rv1", resourceVersionMatch="NotOlderThan", labelSelector="case=$name")),
        ask("GET", path("things", resourceVersion="$rv1", limit=500, labelSelector="case=$name")),
    ],
    "list-revision-not-older": [*_list(), *_list(resourceVersion="$rv1", resourceVersionMatch="NotOlderThan")],
    "list-revision-zero-exact": _list(resourceVersion=0, resourceVersionMatch="Exact"),
    "list-match-alone": _list(resourceVersionMatch="Exact"),
    "list-match-nonsense": _list(resourceVersion=1, resourceVersionMatch="Perhaps"),
    "list-initial-events": _list(sendInitialEvents="true"),
    "list-initial-events-nonsense": _list(sendInitialEvents="perhaps"),
    "list-timeout": _list(timeoutSeconds="1"),
    "list-timeout-nonsense": _list(timeoutSeconds="x"),
    "list-watch-false": _list(watch="false"),
    "list-watch-nonsense": _list(watch="0"),
    "list-request-timeout": _list(timeout="10s"),
    "list-request-timeout-nonsense": _list(timeout="abc"),
    "list-request-timeout-no-unit": _list(timeout="10"),
    "list-request-timeout-negative": _list(timeout="-1s"),
    "list-label-equal": _list(labelSelector="tier=front"),
    "list-label-double-equal": _list(labelSelector="tier==front"),
    "list-label-unequal": _list(labelSelector="tier!=front"),
    "list-label-in": _list(labelSelector="env in (prod, test)"),
    "list-label-not-in": _list(labelSelector="env notin (prod)"),
    "list-label-exists": _list(labelSelector="tier"),
    "list-label-not-exists": _list(labelSelector="!tier"),
    "list-label-and": _list(labelSelector="tier=front,env=test"),
    "list-label-empty-value": _list(labelSelector="tier="),
    "list-label-greater": _list(labelSelector="tier>1"),
    "list-label-greater-text": _list(labelSelector="tier>x"),
    "list-label-empty": _list(labelSelector=""),
    "list-label-malformed": _list(labelSelector="a=b=c"),
    "list-label-malformed-in": _list(labelSelector="a in b"),
    "list-label-malformed-open": _list(labelSelector="a in (b"),
    "list-label-malformed-comma": _list(labelSelector="a=b,"),
    "list-label-malformed-key": _list(labelSelector="a b=c"),
    "list-label-bad-key": _list(labelSelector="-a=b"),
    "list-label-bad-value": _list(labelSelector="a=-b"),
    "list-label-long": _list(labelSelector="a=" + "b" * 64),
    "list-label-in-empty": _list(labelSelector="tier in ()"),
    "list-field-name": _list(fieldSelector="metadata.name=a"),
    "list-field-name-not": _list(fieldSelector="metadata.name!=a"),
    "list-field-name-double": _list(fieldSelector="metadata.name==a"),
    "list-field-two-names": _list(fieldSelector="metadata.name=a,metadata.name=b"),
    "list-field-namespace": _list(fieldSelector="metadata.namespace=other"),
    "list-field-namespace-own": _list(fieldSelector="metadata.namespace=listed"),
    "list-field-selectable": _list(fieldSelector="spec.color=blue"),
    "list-field-selectable-not": _list(fieldSelector="spec.color!=blue"),
    "list-field-selectable-two": _list(fieldSelector="spec.color=green,spec.size=M"),
    "list-field-selectable-number": _list(fieldSelector="spec.price=10"),
    "list-field-with-labels": _list(fieldSelector="spec.color=blue", labelSelector="tier=back"),
    "list-field-limit": _list(fieldSelector="spec.color=green", limit=1),
    "list-field-unsupported": _list(fieldSelector="spec.brand=x"),
    "list-field-unsupported-metadata": _list(fieldSelector="metadata.labels=x"),
    "list-field-malformed": _list(fieldSelector="abc"),
    "list-field-in": _list(fieldSelector="metadata.name in (a)"),
    "list-field-escape": _list(fieldSelector="metadata.name=a\\x"),
    "list-field-name-invalid": _list(fieldSelector="metadata.name=a/b"),
    "list-field-empty-value": _list(fieldSelector="metadata.name="),
    "list-cluster-scoped-field": [ask("GET", path("beacons", namespace="", fieldSelector="metadata.namespace=a"))],
    "list-empty": [ask("GET", path("things", namespace="listed"))],
}

_TABLE = _as("Table")

_FORMS: Cases = {
    "table": _list(_TABLE),
    "table-as-kubectl": _list(f"{_TABLE},{_as('Table', 'v1beta1')},application/json"),
    "table-v1beta1": _list(_as("Table", "v1beta1")),
    "table-v2": _list(_as("Table", "v2")),
    "table-v2-or-json": _list(f"{_as('Table', 'v2')},application/json"),
    "table-of-other-group": _list("application/json;as=Table;g=other.io;v=v1"),
    "table-without-group": _list("application/json;as=Table"),
    "table-include-none": _list(_TABLE, includeObject="None"),
    "table-include-metadata": _list(_TABLE, includeObject="Metadata"),
    "table-include-object": _list(_TABLE, includeObject="Object"),
    "table-include-nonsense": _list(_TABLE, includeObject="Everything"),
    "table-include-empty": _list(_TABLE, includeObject=""),
    "table-include-lower-case": _list(_TABLE, includeObject="none"),
    "table-limit": _list(_TABLE, limit=2),
    "table-nothing": _list(_TABLE, labelSelector="none"),
    "table-one": _one(_TABLE),
    "table-one-v1beta1": _one(_as("Table", "v1beta1")),
    "table-one-object": _one(_TABLE, "?includeObject=Object"),
    "table-pretty": _one(_TABLE, "?pretty=1"),
    "table-yaml": _one("application/yaml;as=Table;g=meta.k8s.io;v=v1"),
    "table-missing": [get(accept=_TABLE)],
    "table-default-columns": [make(), get(accept=_TABLE)],
    "table-two-versions": [
        make(thing("Gadget", spec={"size": 1}), "gadgets"),
        ask("GET", path("gadgets", "$name", version="v1beta1"), accept=_as("Table", more="")),
    ],
    "metadata-one": _one(_as("PartialObjectMetadata")),
    "metadata-one-v1beta1": _one(_as("PartialObjectMetadata", "v1beta1")),
    "metadata-list-of-one": _one(_as("PartialObjectMetadataList")),
    "metadata-list": _list(_as("PartialObjectMetadataList")),
    "metadata-list-v1beta1": _list(_as("PartialObjectMetadataList", "v1beta1")),
    "metadata-list-limit": _list(_as("PartialObjectMetadataList"), limit=2),
    "metadata-of-list": _list(_as("PartialObjectMetadata")),
    "metadata-yaml": _one("application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
    "metadata-protobuf-or-json": _list(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    ),
    "metadata-protobuf-one": [
        make(thing(metadata={"labels": {"a": "b"}, "annotations": {"c": ""}, "finalizers": ["example.com/f"]})),
        get(accept=_in_protobuf("PartialObjectMetadata")),
        patch({"metadata": {"finalizers": None}}, compared=False),
        ask("DELETE", path("things", "$name"), accept=_in_protobuf("PartialObjectMetadata")),
    ],
    "metadata-protobuf-list": _list(_in_protobuf("PartialObjectMetadataList"), limit=2),
    "metadata-protobuf-of-list": _list(_in_protobuf("PartialObjectMetadata")),
    "table-protobuf": _list(_in_protobuf("Table")),
    "table-protobuf-or-json": _list(f"{_in_protobuf('Table')},{_TABLE}"),
    "convert-unknown": _one("application/json;as=Nonsense;g=meta.k8s.io;v=v1"),
}


def _watch(query: str = "", accept: str = "application/json", namespace: str = "same", resource: str = "things") -> Ask:
    return ask("GET", path(resource, namespace=namespace) + f"?watch=true&timeoutSeconds=1{query}", accept=accept)


def _changes(query: str, accept: str = "application/json", patches: tuple[Any, ...] = ({"spec": {"size": 2}},)) -> list[Ask]:
    """A watch from before the case's object was made, over its life. The first object only tells where that is."""
    first = thing(metadata={"name": "$name-first"})
    body = thing(metadata={"labels": {"case": "$name", "on": "yes"}})
    steps = [patch(change, compared=False) for change in patches]
    return [make(first), make(body), *steps, delete(compared=False), _watch(f"&resourceVersion=$rv1{query}", accept)]


_MINE = "&labelSelector=case%3D$name"
_BY_NAME = "&fieldSelector=metadata.name%3D$name"
_OFF_AND_ON = ({"metadata": {"labels": {"on": "no"}}}, {"spec": {"size": 2}}, {"metadata": {"labels": {"on": "yes"}}})

_WATCH: Cases = {
    "watch-life": _changes(_MINE),
    "watch-by-name": _changes(_BY_NAME),
    "watch-by-name-table": _changes(_BY_NAME, _TABLE),
    "watch-transitions": _changes(f"{_MINE}%2Con%3Dyes", patches=_OFF_AND_ON),
    "watch-table": _changes(_MINE, _TABLE),
    "watch-table-object": _changes(f"{_MINE}&includeObject=Object", _TABLE),
    "watch-table-none": _changes(f"{_MINE}&includeObject=None", _TABLE),
    "watch-table-v1beta1": _changes(_MINE, _as("Table", "v1beta1")),
    "watch-metadata": _changes(_MINE, _as("PartialObjectMetadata")),
    "watch-metadata-v1beta1": _changes(_MINE, _as("PartialObjectMetadata", "v1beta1")),
    "watch-metadata-list": _changes(_MINE, _as("PartialObjectMetadataList")),
    "watch-stream-parameter": _changes(_MINE, "application/json;stream=watch"),
    "watch-yaml": [_watch(accept="application/yaml")],
    "watch-yaml-or-json": [_watch(_MINE, accept="application/yaml,application/json")],
    "watch-text": [_watch(accept="text/plain")],
    "watch-pretty": _changes(f"{_MINE}&pretty=true"),
    "watch-state": [_watch(namespace="listed", resource="shirts")],
    "watch-state-zero": [_watch("&resourceVersion=0", namespace="listed", resource="shirts")],
    "watch-state-table": [_watch(accept=_TABLE, namespace="listed", resource="shirts")],
    "watch-state-selected": [_watch("&fieldSelector=spec.color%3Dblue", namespace="listed", resource="shirts")],
    "watch-initial-events": [
        _watch(
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            namespace="listed",
            resource="shirts",
        )
    ],
    "watch-initial-events-table": [
        _watch(
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            _TABLE,
            "listed",
            "shirts",
        )
    ],
    "watch-initial-events-metadata": [
        _watch(
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            _as("PartialObjectMetadata"),
            "listed",
            "shirts",
        )
    ],
    "watch-initial-events-no-bookmarks": [
        _watch("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", namespace="listed", resource="shirts")
    ],
    "watch-initial-events-false": [
        _watch("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", namespace="listed", resource="shirts")
    ],
    "watch-initial-events-no-match": [_watch("&sendInitialEvents=true")],
    "watch-initial-events-exact": [_watch("&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1")],
    "watch-match-alone": [_watch("&resourceVersionMatch=NotOlderThan")],
    "watch-revision-nonsense": [_watch("&resourceVersion=abc")],
    "watch-revision-negative": [_watch("&resourceVersion=-1")],
    "watch-revision-huge": [_watch("&resourceVersion=999999999")],
    "watch-revision-huge-initial": [
        _watch("&resourceVersion=999999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
    ],
    "watch-timeout-nonsense": [ask("GET", path("things", watch="true", timeoutSeconds="x"))],
    "watch-selector-malformed": [_watch("&labelSelector=a%3Db%3Dc")],
    "watch-field-unsupported": [_watch("&fieldSelector=spec.brand%3Dx")],
    "watch-limit": _changes(f"{_MINE}&limit=1"),
    "watch-continue": [_watch("&continue=abc")],
    "watch-continue-match": [_watch("&continue=abc&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")],
    "watch-timeout-empty": [ask("GET", path("things", namespace="listed") + "?watch=1&timeoutSeconds=")],
    "watch-include-nonsense": [_watch("&includeObject=x", _TABLE, "listed", "shirts")],
    "watch-empty-namespace": [_watch(namespace="listed")],
    "watch-missing-namespace": [_watch(namespace="nowhere")],
    "watch-across-namespaces": [_watch("&fieldSelector=metadata.namespace%3Dlisted", namespace="", resource="shirts")],
    "watch-protobuf-metadata": _changes(_MINE, _in_protobuf("PartialObjectMetadata")),
    "watch-protobuf": [_watch(accept="application/vnd.kubernetes.protobuf;stream=watch")],
    "watch-protobuf-expired": [make(), _watch("&resourceVersion=abc", _in_protobuf("PartialObjectMetadata"))],
    "watch-old-path": [ask("GET", f"/apis/{GROUP}/v1/watch/namespaces/listed/shirts?timeoutSeconds=1")],
    "watch-old-path-name": [ask("GET", f"/apis/{GROUP}/v1/watch/namespaces/listed/shirts/a?timeoutSeconds=1")],
    "watch-one": [ask("GET", path("shirts", "a", namespace="listed", watch="true", timeoutSeconds="1"))],
    "watch-value-1": [ask("GET", path("shirts", namespace="listed", watch="1", timeoutSeconds="1"))],
    "watch-head": [ask("HEAD", path("shirts", namespace="listed", watch="1", timeoutSeconds="1"))],
}

_SCALER = thing("Scaler", spec={"replicas": 2, "selector": "a=b"})
_STATUS = "$name/status"
_SCALE = "$name/scale"


def _scaler(*steps: Ask) -> list[Ask]:
    return [make(_SCALER, "scalers"), *steps]


def _scale(replicas: Any = None, **metadata: Any) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "$name", **metadata}, "spec": spec}


def _get(name: str = "$name", **more: Any) -> Ask:
    return get(name, resource="scalers", **more)


def _put(body: Any, name: str, **more: Any) -> Ask:
    return put(body, resource="scalers", name=name, **more)


def _patch(body: Any, name: str, kind: str = "application/merge-patch+json", **more: Any) -> Ask:
    return patch(body, kind, resource="scalers", name=name, **more)


_STATUS_CASES: Cases = {
    "status-in-create": [post({**_SCALER, "status": {"replicas": 5}}, resource="scalers"), _get()],
    "status-in-put": _scaler(
        _put({**_SCALER, "metadata": {"name": "$name", "resourceVersion": "$rv1"}, "status": {"replicas": 5}}, "$name")
    ),
    "status-in-patch": _scaler(_patch({"status": {"replicas": 5}}, "$name")),
    "status-get": _scaler(_get(_STATUS)),
    "status-get-table": _scaler(_get(_STATUS, accept=_TABLE)),
    "status-get-missing": [_get(_STATUS)],
    "status-put": _scaler(
        _put(
            thing(
                "Scaler", metadata={"resourceVersion": "$rv1", "labels": {"a": "b"}}, spec={"replicas": 9}, status={"replicas": 5}
            ),
            _STATUS,
        ),
        _get(),
    ),
    "status-put-no-revision": _scaler(_put(thing("Scaler", status={"replicas": 5}), _STATUS)),
    "status-put-empty": _scaler(_put(b"", _STATUS)),
    "status-put-wrong-kind": _scaler(_put(thing(), _STATUS)),
    "status-put-finalizers": _scaler(
        _put(thing("Scaler", metadata={"resourceVersion": "$rv1", "finalizers": ["plain"]}, status={"replicas": 5}), _STATUS)
    ),
    "status-put-labels-invalid": _scaler(
        _put(thing("Scaler", metadata={"resourceVersion": "$rv1", "labels": {"a b": "c"}}, status={"replicas": 5}), _STATUS)
    ),
    "status-patch": _scaler(
        _patch({"status": {"replicas": 5}, "spec": {"replicas": 9}, "metadata": {"labels": {"a": "b"}}}, _STATUS)
    ),
    "status-patch-json": _scaler(_patch([{"op": "add", "path": "/status", "value": {"replicas": 3}}], _STATUS, JSON_PATCH)),
    "status-patch-removed": _scaler(
        _patch({"status": {"replicas": 5}}, _STATUS, compared=False), _patch({"status": None}, _STATUS), _get()
    ),
    "status-patch-wrong-type": _scaler(_patch({"status": {"replicas": "x"}}, _STATUS)),
    "status-patch-negative": _scaler(_patch({"status": {"replicas": -1}}, _STATUS)),
    "status-patch-unknown": _scaler(_patch({"status": {"unknown": 1}}, _STATUS)),
    "status-patch-dry-run": _scaler(_patch({"status": {"replicas": 5}}, _STATUS, query="dryRun=All"), _get()),
    "status-patch-missing": [_patch({"status": {}}, _STATUS)],
    "status-post": _scaler(ask("POST", path("scalers", _STATUS), _SCALER)),
    "status-delete": _scaler(ask("DELETE", path("scalers", _STATUS))),
    "status-watch": _scaler(_get(_STATUS, query="watch=true&timeoutSeconds=1")),
    "status-where-there-is-none": [make(), get("$name/status")],
    "status-where-there-is-none-put": [make(), put(thing(), name="$name/status")],
    "status-where-there-is-none-patch": [make(), patch({}, name="$name/status")],
    "generation-with-status": _scaler(
        _patch({"status": {"replicas": 5}}, _STATUS),
        _patch({"spec": {"replicas": 3}}, "$name"),
        _patch({"metadata": {"labels": {"x": "y"}}}, "$name"),
    ),
    "spec-replicas-negative": [post(thing("Scaler", spec={"replicas": -1}), resource="scalers")],
}

# As Go's scale client writes it: the name of its case, and 5 replicas.
_PROTOBUF_SCALE = b"k8s\0\x0a\x17\x0a\x0eautoscaling/v1\x12\x05Scale\x12\x1a\x0a\x14\x0a\x12scale-put-protobuf\x12\x02\x08\x05"
_SCALE_CASES: Cases = {
    "scale-get": _scaler(_get(_SCALE)),
    "scale-get-missing": [_get(_SCALE)],
    "scale-get-no-replicas": [make(thing("Scaler"), "scalers"), _get(_SCALE)],
    "scale-get-zero": [make(thing("Scaler", spec={"replicas": 0}), "scalers"), _get(_SCALE)],
    "scale-get-status": _scaler(_patch({"status": {"replicas": 4}}, _STATUS, compared=False), _get(_SCALE)),
    "scale-get-table": _scaler(_get(_SCALE, accept=_TABLE)),
    "scale-get-metadata": _scaler(_get(_SCALE, accept=_as("PartialObjectMetadata"))),
    "scale-get-yaml": _scaler(_get(_SCALE, accept="application/yaml")),
    "scale-get-protobuf-metadata": _scaler(_get(_SCALE, accept=_in_protobuf("PartialObjectMetadata"))),
    "scale-get-protobuf": _scaler(_get(_SCALE, accept="application/vnd.kubernetes.protobuf")),
    "scale-put": _scaler(_put(_scale(5), _SCALE), _get()),
    "scale-put-protobuf": _scaler(_put(_PROTOBUF_SCALE, _SCALE, kind="application/vnd.kubernetes.protobuf"), _get(_SCALE)),
    "scale-put-revision": _scaler(_put(_scale(5, resourceVersion="$rv1"), _SCALE)),
    "scale-put-revision-stale": _scaler(
        _patch({"spec": {"replicas": 3}}, "$name", compared=False), _put(_scale(5, resourceVersion="$rv1"), _SCALE)
    ),
    "scale-put-revision-nonsense": _scaler(_put(_scale(5, resourceVersion="abc"), _SCALE)),
    "scale-put-uid-wrong": _scaler(_put(_scale(5, uid="6f1d5e4c-0000-4000-8000-000000000001"), _SCALE)),
    "scale-put-zero": _scaler(_put(_scale(0), _SCALE)),
    "scale-put-missing-replicas": _scaler(_put(_scale(), _SCALE)),
    "scale-put-no-spec": _scaler(_put({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "$name"}}, _SCALE)),
    "scale-put-negative": _scaler(_put(_scale(-1), _SCALE)),
    "scale-put-string": _scaler(_put(_scale("5"), _SCALE)),
    "scale-put-float": _scaler(_put(_scale(1.5), _SCALE)),
    "scale-put-huge": _scaler(_put(_scale(1 << 40), _SCALE)),
    "scale-put-null": _scaler(_put({**_scale(), "spec": {"replicas": None}}, _SCALE)),
    "scale-put-spec-a-list": _scaler(_put({**_scale(), "spec": []}, _SCALE)),
    "scale-put-other-name": _scaler(_put(_scale(5, name="other"), _SCALE)),
    "scale-put-no-name": _scaler(_put(_scale(5, name=""), _SCALE)),
    "scale-put-other-namespace": _scaler(_put(_scale(5, namespace="default"), _SCALE)),
    "scale-put-parent": _scaler(_put(_SCALER, _SCALE)),
    "scale-put-other-version": _scaler(_put({**_scale(5), "apiVersion": "autoscaling/v2"}, _SCALE)),
    "scale-put-no-kind": _scaler(_put({"metadata": {"name": "$name"}, "spec": {"replicas": 4}}, _SCALE)),
    "scale-put-unknown-field": _scaler(_put({**_scale(5), "colour": "red"}, _SCALE)),
    "scale-put-unknown-strict": _scaler(_put({**_scale(5), "colour": "red"}, _SCALE, query="fieldValidation=Strict")),
    "scale-put-not-json": _scaler(_put("x", _SCALE)),
    "scale-put-empty": _scaler(_put(b"", _SCALE)),
    "scale-put-missing": [_put(_scale(5), _SCALE)],
    "scale-put-dry-run": _scaler(_put(_scale(5), _SCALE, query="dryRun=All"), _get()),
    "scale-put-same": _scaler(_put(_scale(2), _SCALE)),
    "scale-put-labels": _scaler(_put(_scale(5, labels={"a": "b"}), _SCALE), _get()),
    "scale-put-status": _scaler(_put({**_scale(5), "status": {"replicas": 7}}, _SCALE)),
    "scale-patch": _scaler(_patch({"spec": {"replicas": 5}}, _SCALE), _get()),
    "scale-patch-json": _scaler(_patch([{"op": "replace", "path": "/spec/replicas", "value": 6}], _SCALE, JSON_PATCH)),
    "scale-patch-null": _scaler(_patch({"spec": {"replicas": None}}, _SCALE)),
    "scale-patch-negative": _scaler(_patch({"spec": {"replicas": -5}}, _SCALE)),
    "scale-patch-string": _scaler(_patch({"spec": {"replicas": "x"}}, _SCALE)),
    "scale-patch-kind": _scaler(_patch({"kind": "Other"}, _SCALE)),
    "scale-patch-version": _scaler(_patch({"apiVersion": "autoscaling/v2"}, _SCALE)),
    "scale-put-other-kind": _scaler(_put({**_scale(5), "kind": "Other"}, _SCALE)),
    "scale-patch-unknown": _scaler(_patch({"spec": {"colour": "x"}}, _SCALE)),
    "scale-patch-strategic": _scaler(_patch({"spec": {"replicas": 5}}, _SCALE, "application/strategic-merge-patch+json")),
    "scale-patch-test-fails": _scaler(_patch([{"op": "test", "path": "/spec/replicas", "value": 6}], _SCALE, JSON_PATCH)),
    "scale-patch-missing": [_patch({"spec": {"replicas": 5}}, _SCALE)],
    "scale-post": _scaler(ask("POST", path("scalers", _SCALE), _scale(1))),
    "scale-delete": _scaler(ask("DELETE", path("scalers", _SCALE))),
    "scale-where-there-is-none": [make(), get("$name/scale")],
}

CASES: Cases = {**_GET, **_LIST, **_FORMS, **_WATCH, **_STATUS_CASES, **_SCALE_CASES}
