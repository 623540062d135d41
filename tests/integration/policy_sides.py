"""kube-apiserver and aggserver with the same admission policies, for the cases of `cases_policies.py`.

A case has policies of its own: they select its namespace by a label, so that all cases are configured at once.
kube-apiserver and aggserver, without a cluster, store them and act on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aggserver.meta.json_types import JSONObject
from tests.controlplane.cluster import Cluster
from tests.integration.comparison import Ask, Case, Seen, play
from tests.integration.raw import Client
from tests.integration.server import NO_COLLECTOR, Standalone, eventually, running

__all__ = ["GROUP", "PolicyCase", "PolicySides", "policy_sides"]

GROUP = "policies.example.com"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JSON = {"content-type": "application/json"}
# Seconds until kube-apiserver has noticed all policies and the kinds of params, which it looks for every 30 s.
_PROBE = "zz-probe-of-policies"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


@dataclass(frozen=True)
class PolicyCase:
    """Policies by the ends of their names, as their specs; with `bindings`, a list of specs of theirs.

    `matchConstraints` is added to, so that only the namespace of the case matches. steps: requests; `$namespace` is the
    namespace. params: requests that make params, before there are policies.
    """

    steps: Case
    params: Case = ()
    validating: Mapping[str, JSONObject] = field(default_factory=dict)
    mutating: Mapping[str, JSONObject] = field(default_factory=dict)


class PolicySides:
    """Plays cases against both."""

    def __init__(self, cases: Mapping[str, PolicyCase], upstream: Client, ours: Client) -> None:
        self._cases = cases
        self._sides = upstream, ours

    def play(self, name: str) -> tuple[list[Seen], list[Seen]]:
        case = self._cases[name]
        steps = [_placed(step, slug(name)) for step in case.steps]
        upstream, ours = (play(steps, "thing", client, client) for client in self._sides)
        return upstream, ours


def slug(name: str) -> str:
    """The namespace of a case."""
    return "".join(character if character.isalnum() else "-" for character in name.lower()).strip("-")


def _placed(step: Ask, namespace: str) -> Ask:
    body = None if step.body is None else step.body.replace(b"$namespace", namespace.encode())
    where = step.path.replace("$namespace", namespace)
    return Ask(step.method, where, body, step.headers, step.compared, step.stranger, step.pick)


def configurations(name: str, case: PolicyCase) -> Iterator[JSONObject]:
    """The policies of a case, each followed by its bindings."""
    for kind, policies in (("ValidatingAdmissionPolicy", case.validating), ("MutatingAdmissionPolicy", case.mutating)):
        for end, given in policies.items():
            spec = dict(given)
            bindings = spec.pop("bindings", [{}])
            here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": slug(name)}}}
            rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["gadgets"], "operations": ["CREATE", "UPDATE"]}
            spec["matchConstraints"] = {"resourceRules": [rule], **here, **spec.get("matchConstraints", {})}
            if kind == "MutatingAdmissionPolicy":
                spec.setdefault("reinvocationPolicy", "Never")
                spec.setdefault("failurePolicy", "Fail")
            full = f"{slug(name)}-{end}"
            yield _object(kind, full, spec)
            for number, binding in enumerate(bindings):
                actions = {"validationActions": ["Deny"]} if kind.startswith("V") else {}
                yield _object(f"{kind}Binding", f"{full}-{number}", {"policyName": full, **actions, **binding})


def _object(kind: str, name: str, spec: JSONObject) -> JSONObject:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@contextmanager
def policy_sides(
    cluster: Cluster, folder: Path, cases: Mapping[str, PolicyCase], definitions: Sequence[JSONObject]
) -> Iterator[PolicySides]:
    """kube-apiserver and an aggserver of its own; the cluster is left without what was made there."""
    cases = {**cases, _PROBE: _PROBING}
    server = Standalone(folder / "data", NO_COLLECTOR)
    with running(server), Client(cluster.kubeconfig) as upstream, Client(server.kubeconfig) as ours:
        for client in (upstream, ours):
            _plant(client, cases, definitions)
        for client in (upstream, ours):
            _await_effect(client)
        yield PolicySides(cases, upstream, ours)
        for name, case in cases.items():
            for each in configurations(name, case):
                upstream.request("DELETE", f"{_path(each)}/{each['metadata']['name']}")
        for definition in definitions:
            upstream.request("DELETE", f"{_DEFINITIONS}/{definition['metadata']['name']}")
        for name in cases:
            upstream.request("DELETE", f"/api/v1/namespaces/{slug(name)}")


def _plant(client: Client, cases: Mapping[str, PolicyCase], definitions: Sequence[JSONObject]) -> None:
    for definition in definitions:
        _create(client, _DEFINITIONS, definition)
    for name in cases:
        _create(client, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": slug(name)}})
    eventually(partial(_are_established, client, definitions), "the definitions are served")
    for name, case in cases.items():
        play([_placed(step, slug(name)) for step in case.params], "", client, client)
    for name, case in cases.items():
        for each in configurations(name, case):
            _create(client, _path(each), each)


def _are_established(client: Client, definitions: Sequence[JSONObject]) -> bool:
    def is_established(name: str) -> bool:
        status = json.loads(client.request("GET", f"{_DEFINITIONS}/{name}").body).get("status") or {}
        return any(each["type"] == "Established" and each["status"] == "True" for each in status.get("conditions") or ())

    return all(is_established(definition["metadata"]["name"]) for definition in definitions)


def _path(each: JSONObject) -> str:
    return f"{_REGISTRATION}/{_PLURALS[each['kind']]}"


def _create(client: Client, where: str, obj: JSONObject) -> None:
    answer = client.request("POST", where, _JSON, json.dumps(obj).encode())
    assert answer.status == 201, (obj, answer.body)


# The last policies: one with a kind of params that has to be found first, one that needs the schema for a merge.
_LABELLED = "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}}"
_PROBING = PolicyCase(
    steps=[],
    validating={
        "v": {
            "paramKind": {"apiVersion": f"{GROUP}/v1", "kind": "Limit"},
            "validations": [{"expression": "!has(object.metadata.labels)", "message": "mutated"}],
        },
        "w": {
            "paramKind": {"apiVersion": f"{GROUP}/v1", "kind": "Region"},
            "validations": [{"expression": "true"}],
        },
    },
    mutating={"m": {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _LABELLED}}]}},
)


def _await_effect(client: Client) -> None:
    """Until the server refuses what the last policies make of an object, and knows the kinds of all params."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "probe"}}
    where = f"/apis/{GROUP}/v1/namespaces/{_PROBE}/gadgets?dryRun=All"

    def has_effect() -> bool:
        answer = client.request("POST", where, _JSON, json.dumps(body).encode())
        return b"denied request: mutated" in answer.body and b"failed to" not in answer.body

    eventually(has_effect, "the policies are in force")
