"""The status of ValidatingAdmissionPolicies: what kube-controller-manager and aggserver find wrong with their types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.comparison import GROUP, comparable
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.integration.sides import Side, both

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_SHIP = _object(
    spec=_object(
        name=STRING,
        size=INTEGER,
        load={"type": "number"},
        docked={"type": "boolean"},
        since={"type": "string", "format": "date-time"},
        pause={"type": "string", "format": "duration"},
        sail={"type": "string", "enum": ["a", "b"]},
        port={"x-kubernetes-int-or-string": True},
        anything={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        tags={"type": "array", "items": STRING},
        parts={"type": "array", "items": _object(name=STRING, weight=INTEGER)},
        pairs={"type": "object", "additionalProperties": INTEGER},
        template={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        namespace=STRING,
    ),
    status=_object(phase=STRING),
)


def _definition(kind: str, *schemas: dict[str, Any]) -> dict[str, Any]:
    singular = kind.lower()
    names = {"plural": f"{singular}s", "singular": singular, "kind": kind, "listKind": f"{kind}List"}
    versions = [
        {"name": f"v{number}", "served": True, "storage": number == 1, "schema": {"openAPIV3Schema": schema}}
        for number, schema in enumerate(schemas, 1)
    ]
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions}
    metadata = {"name": f"{singular}s.{GROUP}"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


DEFINITIONS = (
    _definition("Ship", _SHIP, _object(spec=_object(size=STRING))),
    _definition("Crew", _object(spec=_object(name=STRING, size=INTEGER))),
)
_SHIPS = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["ships"], "operations": ["CREATE"]}


def _policy(*expressions: str, rules: Any = (_SHIPS,), messages: Any = (), **spec: Any) -> dict[str, Any]:
    validations: list[dict[str, Any]] = [{"expression": expression} for expression in expressions]
    for validation, message in zip(validations, messages, strict=False):
        validation["messageExpression"] = message
    return {"matchConstraints": {"resourceRules": list(rules)}, "validations": validations, **spec}


_CREW = {"paramKind": {"apiVersion": f"{GROUP}/v1", "kind": "Crew"}}
CASES: dict[str, dict[str, Any]] = {
    "it-fits": _policy("object.spec.size > 1 && object.spec.name == 'a' && oldObject == null"),
    "undefined-field": _policy("object.spec.length > 1", "object.foo == 1", "oldObject.status.phases == 'x'"),
    "wrong-type": _policy("object.spec.size == 'a'", "object.spec.name > 1", "object.spec.docked == 1 || object.spec.load == 1"),
    "formats": _policy("object.spec.since == 'a'", "object.spec.pause > duration('1s')", "object.spec.sail == 1"),
    "int-or-string": _policy("object.spec.port == 1", "object.spec.port == 'a'", "object.spec.port.foo == 1"),
    "anything": _policy(
        "object.spec.anything.foo == 1", "object.spec.template.spec.a == 1", "object.spec.template.metadata.name == 1"
    ),
    "lists": _policy(
        "object.spec.tags.all(t, t > 1)", "object.spec.parts.exists(p, p.size == 1)", "object.spec.pairs['a'] == 'x'"
    ),
    "metadata": _policy(
        "object.metadata.name == 1",
        "object.metadata.labels['a'] == 'b'",
        "object.metadata.labels == 'x'",
        "object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')",
        "object.metadata.ownerReferences[0].uid == 1",
        "object.metadata.finalizers.exists(f, f == 1)",
        "object.metadata.foo == 1",
        "object.kind == 1 || object.apiVersion == 2",
        "object.metadata.managedFields[0].fieldsV1.foo == 1",
        "object.metadata.generation == 'x'",
    ),
    "reserved": _policy("object.spec.__namespace__ == 1", "object.spec.namespace == 1"),
    "messages": _policy("object.spec.size > 1", "true", messages=("string(object.spec.size + 'x')", "string(object.spec.foo)")),
    "variables": _policy(
        "variables.a == 1",
        "variables.c == 'x'",
        variables=[
            {"name": "a", "expression": "object.spec.name"},
            {"name": "b", "expression": "object.spec.foo"},
            {"name": "c", "expression": "variables.b"},
        ],
    ),
    "variable-objects": _policy("variables.a.foo == 1", variables=[{"name": "a", "expression": "object.spec"}]),
    "params": _policy("params.spec.size == object.spec.name", "params.spec.foo == 1", **_CREW),
    "params-unknown": _policy("params.spec.size == 1", paramKind={"apiVersion": f"{GROUP}/v1", "kind": "Nothing"}),
    "both-versions": _policy("object.spec.size > 1", rules=[{**_SHIPS, "apiVersions": ["v2", "v1"]}]),
    "two-kinds": _policy(
        "object.spec.size == 'a'", "object.spec.docked == true", rules=[{**_SHIPS, "resources": ["ships", "crews"]}]
    ),
    "two-rules": _policy("object.spec.docked == 1", rules=[{**_SHIPS, "resources": ["crews"]}, _SHIPS]),
    "singular": _policy("object.spec.foo == 1", rules=[{**_SHIPS, "resources": ["ship"]}]),
    "unknown-resource": _policy("object.spec.foo == 1", rules=[{**_SHIPS, "resources": ["boats"]}]),
    "unknown-version": _policy("object.spec.foo == 1", rules=[{**_SHIPS, "apiVersions": ["v3"]}]),
    "built-in-kinds": _policy(
        "object.spec.replicas > '1'",
        "object.spec.template.spec.containers.exists(c, c.ports[0].containerPort == 'a')",
        "object.spec.strategy.rollingUpdate.maxSurge == 1",
        "object.spec.strategy.rollingUpdate.maxSurge.foo == 1",
        "object.spec.template.spec.containers[0].resources.limits['cpu'] == 1",
        "object.spec.template.metadata.labels['a'] == 1",
        "object.spec.selector.matchLabels.foo == 1",
        "object.metadata.creationTimestamp == 1",
        "object.spec.foo == 1 || object.status.replicas == 'a'",
        "object.kind == 1",
        rules=[{**_SHIPS, "apiGroups": ["apps"], "resources": ["deployments"]}],
    ),
    "built-in-secrets": _policy(
        "object.data['a'] == 1", "object.immutable == 1", rules=[{**_SHIPS, "apiGroups": [""], "resources": ["secrets"]}]
    ),
    "kinds-that-contain-themselves": _policy(
        "object.spec.foo == 1",
        rules=[{**_SHIPS, "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}],
    ),
    "wildcards": _policy("object.spec.foo == 1", rules=[{**_SHIPS, "apiGroups": ["*"]}]),
    "wildcard-resources": _policy("object.spec.foo == 1", rules=[{**_SHIPS, "resources": ["*"]}]),
    "subresource": _policy("object.spec.foo == 1", rules=[{**_SHIPS, "resources": ["ships/status"]}]),
    "authorizer": _policy("authorizer.requestResource.check('get').allowed()", "authorizer.path('/x').check('get').allowed()"),
}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("policies"), DEFINITIONS, ("policies",)) as pair:
        yield pair


@pytest.mark.parametrize("name", CASES)
def test_same_status(sides: tuple[Side, Side], name: str) -> None:
    upstream, ours = (_status(side.client, name, CASES[name]) for side in sides)
    assert ours == upstream


def test_it_follows_the_spec(sides: tuple[Side, Side]) -> None:
    change = {"validations": [{"expression": "true"}]}
    upstream, ours = (_status(side.client, "changed", _policy("object.spec.foo == 1"), change) for side in sides)
    assert ours == upstream
    assert ours[0]["observedGeneration"] == 2


def _status(client: Client, name: str, spec: dict[str, Any], change: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """The status of a policy, and who owns it."""

    def send(method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        answer = client.request(method, path, {"content-type": kind}, None if body is None else json.dumps(body).encode())
        assert answer.status < 300, answer
        return json.loads(answer.body)

    def checked() -> bool:
        found = send("GET", f"{POLICIES}/{name}")
        return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])

    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    send("POST", POLICIES, {**kind, "metadata": {"name": name}, "spec": spec})
    try:
        eventually(checked, "the policy is checked")
        if change is not None:
            send("PATCH", f"{POLICIES}/{name}", {"spec": change}, "application/merge-patch+json")
            eventually(checked, "the changed policy is checked")
        found = send("GET", f"{POLICIES}/{name}")
        owners = [entry for entry in found["metadata"]["managedFields"] if entry.get("subresource")]
        return comparable(found["status"]), comparable(owners)
    finally:
        send("DELETE", f"{POLICIES}/{name}")
