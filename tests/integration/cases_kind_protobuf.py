"""Cases for `test_same_kinds.py`: answers in protobuf, for clients that accept nothing else."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import MERGE_PATCH, Cases, ask
from tests.integration.kinds import MINIMAL, minimal, on

__all__ = ["CASES"]

_PROTOBUF = "application/vnd.kubernetes.protobuf"
# Controllers write the status of these in between; an update of the last is refused upstream for what it has made of the data.
_OTHERWISE = ("core/resourcequotas", "flowcontrol.apiserver.k8s.io/flowschemas", "apps/controllerrevisions")
_CHANGE = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": ""}}}


def _own(body: Any) -> Any:
    """Of a list, the case's own object, whose name alone is selected; the list's own metadata differ with the others."""
    return [body["apiVersion"], body["kind"], body.get("items")]


CASES: Cases = {
    f"protobuf-{which.replace('/', '-')}": [
        on("POST", which, minimal(which), accept=_PROTOBUF),
        on("GET", which, accept=_PROTOBUF),
        on("PATCH", which, _CHANGE, kind=MERGE_PATCH, accept=_PROTOBUF),
        on("GET", which, name="", query="fieldSelector=metadata.name%3D$name", accept=_PROTOBUF, pick=_own),
        on(
            "DELETE",
            which,
            accept=_PROTOBUF,
            query="gracePeriodSeconds=0&propagationPolicy=Background",
            pick=lambda body: body["kind"],
        ),
    ]
    for which in MINIMAL
    if which not in _OTHERWISE
} | {
    "protobuf-errors": [
        on("GET", "core/pods", name="missing", accept=_PROTOBUF),
        on("POST", "core/pods", {}, accept=_PROTOBUF),
    ],
    "protobuf-accept": [
        on("GET", "core/pods", name="missing", accept=accept)
        for accept in (
            f"{_PROTOBUF};q=0.5,text/plain",
            f"{_PROTOBUF};as=Table;g=meta.k8s.io;v=v1",
            f"{_PROTOBUF};stream=watch",
        )
    ],
    "protobuf-watch": [
        on("POST", "core/configmaps", minimal("core/configmaps", data={"a": "b"}), compared=False),
        on(
            "GET",
            "core/configmaps",
            name="",
            query="watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D$name&resourceVersion=0",
            accept=_PROTOBUF,
        ),
        on(
            "GET",
            "core/configmaps",
            name="",
            query="watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D$name&resourceVersion=0",
            accept=f"{_PROTOBUF};stream=watch",
        ),
        on("DELETE", "core/configmaps", compared=False),
    ],
    "protobuf-reviews": [
        ask(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            accept=_PROTOBUF,
            pick=lambda body: body["kind"],
        ),
        ask("GET", "/api/v1/namespaces/default", accept=_PROTOBUF, pick=lambda body: body["spec"]),
        ask("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/missing", accept=_PROTOBUF),
    ],
}
