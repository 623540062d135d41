"""Cases for `test_same_kinds.py`: what every built-in kind has in common, on a minimal object of each."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Case, Cases
from tests.integration.kinds import BY_NAME, MINIMAL, minimal, on

__all__ = ["CASES"]

STRATEGIC_PATCH = "application/strategic-merge-patch+json"


# Left out: of quotas a controller keeps the status; a Job's labels and selector are its own; upstream takes no patch of a
# ControllerRevision, since it compares the bytes of its data, and the metadata alone of a DaemonSet lacks there what v1 has as an
# annotation; PVs, PVCs and VolumeAttributesClasses stay until a controller removes their finalizer; a controller in
# kube-apiserver writes the status of FlowSchemas; rows of IPAddresses have a cell more there than there are columns.
_LEFT_OUT = {
    *(("core/resourcequotas", title) for title in ("life", "updates", "patches", "applies", "reads", "status")),
    *(("batch/jobs", title) for title in ("updates", "status", "bad")),
    ("apps/controllerrevisions", "patches"),
    ("apps/daemonsets", "reads"),
    *((f"core/persistentvolume{end}", title) for end in ("s", "claims") for title in ("life", "patches", "reads")),
    *(("storage.k8s.io/volumeattributesclasses", title) for title in ("life", "patches", "reads")),
    *(
        ("flowcontrol.apiserver.k8s.io/flowschemas", title)
        for title in ("life", "updates", "patches", "applies", "reads", "status")
    ),
    ("networking.k8s.io/ipaddresses", "reads"),
}
_BACKGROUND = "propagationPolicy=Background"


def _made(which: str, metadata: Any = None) -> Any:
    return on("POST", which, minimal(which, metadata), compared=False)


def _life(which: str) -> Case:
    """From the creation to the end."""
    return [
        on("POST", which, minimal(which)),
        on("GET", which),
        on("GET", which, name="", query="fieldSelector=metadata.name%3D$name", pick=_items),
        on("POST", which, minimal(which)),
        on("DELETE", which, query=_BACKGROUND, pick=_gone),
        on("GET", which),
    ]


def _items(body: Any) -> Any:
    return body.get("items", body)


def _reason(body: Any) -> Any:
    """Of an error whose text shows Go's scheme, keys of etcd or an object with its members in Go's order."""
    return body.get("reason", body)


def _gone(body: Any) -> Any:
    return {name: value for name, value in body.items() if name != "metadata"}


def _updates(which: str) -> Case:
    labelled = {"labels": {"a": "b"}}
    return [
        _made(which),
        on("PUT", which, minimal(which, {**labelled, "resourceVersion": "$rv1"})),
        on("PUT", which, minimal(which, {"annotations": {"c": "d"}})),
        on("PUT", which, minimal(which, {"resourceVersion": "1"})),
        on("PUT", which, minimal(which, {"uid": "00000000-0000-0000-0000-000000000000"}), pick=_reason),
        on("PUT", which, minimal(which, {"name": "other"})),
        on("DELETE", which, query=_BACKGROUND, compared=False),
    ]


def _patches(which: str) -> Case:
    labels = {"metadata": {"labels": {"a": "b", "c": "d"}}}
    return [
        _made(which),
        on("PATCH", which, labels, kind=MERGE_PATCH),
        on("PATCH", which, [{"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}}], kind=JSON_PATCH),
        on("PATCH", which, {"metadata": {"labels": {"a": None}}}, kind=STRATEGIC_PATCH),
        on("PATCH", which, {"metadata": {"finalizers": ["example.com/f"]}}, kind=STRATEGIC_PATCH),
        on("PATCH", which, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}}, kind=STRATEGIC_PATCH),
        on("PATCH", which, {"unknown": 1}, kind=MERGE_PATCH),
        on("PATCH", which, {"unknown": 1}, kind=MERGE_PATCH, query="fieldValidation=Strict", pick=_reason),
        on("PATCH", which, {"metadata": {"name": "other"}}, kind=MERGE_PATCH),
        on("DELETE", which, query=_BACKGROUND, compared=False),
    ]


def _applies(which: str) -> Case:
    manager = "fieldManager=applier"
    labelled = minimal(which, {"labels": {"a": "b"}})
    return [
        on("PATCH", which, minimal(which), kind=APPLY_PATCH, query=manager),
        on("PATCH", which, labelled, kind=APPLY_PATCH, query=manager),
        on("PATCH", which, labelled, kind=APPLY_PATCH, query="fieldManager=other"),
        on("PATCH", which, minimal(which, {"labels": {"a": "c"}}), kind=APPLY_PATCH, query="fieldManager=other"),
        on("PATCH", which, minimal(which), kind=APPLY_PATCH, query=manager),
        on("DELETE", which, query=_BACKGROUND, compared=False),
    ]


def _bad(which: str) -> Case:
    return [
        on("POST", which, minimal(which, {"name": "Not/a_name"})),
        on("POST", which, minimal(which, {"labels": {"a b": "c"}})),
        on("POST", which, minimal(which, unknown=1), query="fieldValidation=Strict"),
        on("POST", which, minimal(which, {"unknown": 1}), query="fieldValidation=Strict"),
        on("POST", which, {**minimal(which), "kind": "Other"}, pick=_reason),
        on("POST", which, {**minimal(which), "apiVersion": "other/v1"}, pick=_reason),
        on("POST", which, {**minimal(which), "metadata": "x"}),
        on("POST", which, "{"),
        on("POST", which, ""),
        on("POST", which, {"metadata": {}}, pick=_reason),
        on("POST", which, minimal(which), query="dryRun=All"),
        on("GET", which),
        on("GET", which, name="", query="fieldSelector=spec.unknown%3Da"),
        on("GET", which, below="unknown"),
        on("PUT", which, minimal(which, {"name": "absent", "resourceVersion": "5"}), name="absent"),
        on("PATCH", which, {}, name="absent", kind=MERGE_PATCH),
        on("DELETE", which, name="absent"),
    ]


def _status(which: str) -> Case:
    return [
        _made(which),
        on("GET", which, below="status"),
        on("PATCH", which, {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}, kind=MERGE_PATCH, below="status"),
        on("PUT", which, minimal(which, {"resourceVersion": ""}, status={}), below="status"),
        on(
            "PATCH",
            which,
            {"status": {"unknown": 1}},
            kind=MERGE_PATCH,
            below="status",
            query="fieldValidation=Strict",
            pick=_reason,
        ),
        on("PATCH", which, {"status": None}, kind=MERGE_PATCH),
        on("DELETE", which, query=_BACKGROUND, compared=False),
    ]


_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def _reads(which: str) -> Case:
    """In all forms, by label, and deleted as a collection."""
    chosen = "labelSelector=case%3D$name"
    return [
        _made(which, metadata={"labels": {"case": "$name"}}),
        on("GET", which, accept=_TABLE, pick=_undescribed),
        on("GET", which, name="", query=chosen, accept=_TABLE, pick=_undescribed),
        on("GET", which, name="", query=chosen, accept=_PARTIAL),
        on("GET", which, name="", query=chosen, accept="application/yaml"),
        on("GET", which, name="", query=chosen),
        on("DELETE", which, name="", query=f"{chosen}&dryRun=All", pick=_kinds),
        on("DELETE", which, name="", query=f"{chosen}&{_BACKGROUND}", pick=_kinds),
        on("GET", which, name="", query=chosen),
    ]


def _undescribed(body: Any) -> Any:
    """A Table without the descriptions of its columns."""
    return {**body, "columnDefinitions": [{**column, "description": ""} for column in body["columnDefinitions"]]}


def _kinds(body: Any) -> Any:
    return [body.get("kind"), [item["metadata"]["name"] for item in body.get("items", ())]]


def _scale(which: str) -> Case:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "$name"}}
    return [
        _made(which),
        on("GET", which, below="scale"),
        on("PUT", which, {**scale, "spec": {"replicas": 3}}, below="scale"),
        on("PATCH", which, {"spec": {"replicas": 2}}, kind=MERGE_PATCH, below="scale"),
        on("PATCH", which, {"spec": {"replicas": 2}}, kind=STRATEGIC_PATCH, below="scale"),
        on("PATCH", which, {**scale, "spec": {"replicas": 4}}, kind=APPLY_PATCH, below="scale", query="fieldManager=m"),
        on("PUT", which, {**scale, "spec": {"replicas": -1}}, below="scale"),
        on("PUT", which, {**scale, "metadata": {"name": "$name", "resourceVersion": "1"}}, below="scale"),
        on("GET", which),
        on("GET", which, below="scale", name="absent"),
        on("DELETE", which, query=_BACKGROUND, compared=False),
    ]


CASES: Cases = {}
for _which, _kind in BY_NAME.items():
    if _which not in MINIMAL:
        continue
    _stem = _which.replace("/", "-").replace(".k8s.io", "").replace(".authorization", "")
    for _title, _case in (
        ("life", _life),
        ("updates", _updates),
        ("patches", _patches),
        ("applies", _applies),
        ("reads", _reads),
        ("bad", _bad),
    ):
        if (_which, _title) not in _LEFT_OUT:
            CASES[f"{_stem}-{_title}"] = _case(_which)
    if _kind.has_status and (_which, "status") not in _LEFT_OUT:
        CASES[f"{_stem}-status"] = _status(_which)
    if _kind.scale:
        CASES[f"{_stem}-scale"] = _scale(_which)
