"""The same requests and the same audit policy: kube-apiserver and aggserver record the same events, but for times and names.

Every request has an Audit-ID of its own, by which its events are found in both logs; namespaces have the names of levels, and the
policy records each at that level. The kube-apiserver is a control plane of this module, since only it has a policy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Ask, ask, comparable
from tests.integration.raw import Client
from tests.integration.server import NO_COLLECTOR, Standalone, eventually, running
from tests.waiting import KUBECTL_LIMIT

GROUP = "audit.example.com"
LEVELS = ("metadata", "request", "response")
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [Panic]
rules:
- level: None
  verbs: [get]
  nonResourceURLs: ["/readyz*", "/livez*"]
- level: None
  userGroups: ["system:nodes", "system:serviceaccounts"]
- level: None
  users: ["system:apiserver", "system:kube-controller-manager"]
- level: Metadata
  namespaces: [metadata]
  omitStages: [RequestReceived]
- level: Request
  namespaces: [request]
- level: RequestResponse
  namespaces: [response]
  omitManagedFields: true
  resources:
  - {group: audit.example.com, resources: [things, "*/status"]}
- level: RequestResponse
  resources:
  - {group: "", resources: [configmaps, namespaces]}
  - {group: audit.example.com}
- level: Metadata
  nonResourceURLs: ["/version", "/api*", "/healthz*", "/nothing"]
"""
_STRING = {"type": "string"}
_SPEC = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9, "default": 1}, "color": _STRING}}
_SCHEMA = {"type": "object", "properties": {"spec": _SPEC, "status": {"type": "object", "properties": {"phase": _STRING}}}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"things.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
            },
            {"name": "v1beta1", "served": True, "storage": False, "deprecated": True, "schema": {"openAPIV3Schema": _SCHEMA}},
        ],
    },
}
_RULES = [{"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["things"]}]
ADMISSION = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "colors.example.com"},
        "spec": {
            "matchConstraints": {"resourceRules": _RULES},
            "validations": [{"expression": "object.?spec.color.orValue('') != 'red'", "message": "not red"}],
            "auditAnnotations": [{"key": "color", "valueExpression": "string(object.?spec.color.orValue('none'))"}],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "colors.example.com"},
        "spec": {"policyName": "colors.example.com", "validationActions": ["Audit"]},
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "nobody"},
        "webhooks": [
            {
                "name": "nobody.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": _RULES,
            }
        ],
    },
]


def _things(level: str, name: str = "", version: str = "v1", query: str = "") -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{level}/things{f'/{name}' if name else ''}{f'?{query}' if query else ''}"


def _thing(name: str = "", version: str = "v1", metadata: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Thing", "metadata": {**named, **(metadata or {})}, **members}


def _of_level(level: str) -> dict[str, Ask]:
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    maps = f"/api/v1/namespaces/{level}/configmaps"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    # At other levels upstream has no event of the answer to such a patch, since it puts the patch into the event as it is.
    wrong = {"patch, wrong": ask("PATCH", _things(level, "one"), "{", kind=MERGE_PATCH)} if level == LEVELS[0] else {}
    as_bob: dict[str, Any] = {"impersonate_user": "bob", "impersonate_group": "builders"}
    return {
        "create": ask("POST", _things(level), _thing("one", spec={"color": "blue", "unknown": 1})),
        "create, generated": ask("POST", _things(level), _thing(metadata={"generateName": "generated-"}, spec={"color": "red"})),
        "create, tried": ask("POST", _things(level, query="dryRun=All&fieldManager=me"), _thing("two")),
        "create, there": ask("POST", _things(level), _thing("one")),
        "create, invalid": ask("POST", _things(level), _thing("big", spec={"size": 10})),
        "create, no object": ask("POST", _things(level), "{"),
        "create, deprecated": ask("POST", _things(level, version="v1beta1"), _thing("old", "v1beta1")),
        "create, YAML": ask(
            "POST", _things(level), json.dumps(_thing("yaml")), kind="application/yaml", accept="application/yaml"
        ),
        "get": ask("GET", _things(level, "one")),
        "get, pretty": ask("GET", _things(level, "one", query="pretty=true")),
        "get, YAML": ask("GET", _things(level, "one"), accept="application/yaml"),
        "get, table": ask("GET", _things(level, "one"), accept=table),
        "get, none": ask("GET", _things(level, "none")),
        "get, forwarded": ask(
            "GET", _things(level, "one"), x_forwarded_for="10.0.0.9, no, ::ffff:10.0.0.1", x_real_ip="10.0.0.7"
        ),
        "get, as another": ask("GET", _things(level, "one"), **as_bob),
        "list": ask("GET", _things(level, query="limit=1")),
        "list, table": ask("GET", _things(level), accept=table),
        "list, selected": ask("GET", _things(level, query="fieldSelector=metadata.name%3Done")),
        "list, wrong": ask("GET", _things(level, query="labelSelector=%3D%3D")),
        "watch": ask("GET", _things(level, query="watch=true&timeoutSeconds=1")),
        "watch, refused": ask("GET", _things(level, query="watch=true&timeoutSeconds=1"), **as_bob),
        "patch": ask("PATCH", _things(level, "one"), {"spec": {"color": "green"}}, kind=MERGE_PATCH),
        "patch, operations": ask("PATCH", _things(level, "one"), [{"op": "test", "path": "/kind", "value": ""}], kind=JSON_PATCH),
        **wrong,
        "apply": ask("PATCH", _things(level, "applied", query="fieldManager=me"), _thing("applied"), kind=APPLY_PATCH),
        "put": ask("PUT", _things(level, "old"), _thing("old", spec={"size": 3})),
        "put, status": ask("PUT", f"{_things(level, 'one')}/status", _thing("one", status={"phase": "ready"})),
        "delete": ask("DELETE", _things(level, "one")),
        "delete, options": ask("DELETE", _things(level, "old"), {"propagationPolicy": "Background"}),
        "delete all": ask("DELETE", _things(level)),
        "no such resource": ask("GET", f"/apis/{GROUP}/v1/namespaces/{level}/others/x"),
        "map": ask("POST", maps, {**bare, "metadata": {"name": "m"}}),
        "map, read": ask("GET", f"{maps}/m"),
        "map, deleted": ask("DELETE", f"{maps}/m", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}),
        "wrong time": ask("GET", _things(level, "one", query="timeout=long")),
        "wrong token": ask("GET", _things(level, "one"), stranger=True, authorization="Bearer x"),
        "no credentials": ask("GET", _things(level, "one"), stranger=True),
    }


CASES: dict[str, Ask] = {f"{level}: {name}": step for level in LEVELS for name, step in _of_level(level).items()} | {
    "version": ask("GET", "/version"),
    "discovery": ask("GET", "/apis"),
    "discovery of a version": ask("GET", f"/apis/{GROUP}/v1"),
    "health": ask("GET", "/healthz/ping?verbose"),
    "not recorded": ask("GET", "/readyz/ping"),
    "no path": ask("GET", "/nothing", user_agent="x" * 1100),
    "namespace": ask("POST", "/api/v1/namespaces", {"metadata": {"name": "made"}}),
}


class Side(NamedTuple):
    client: Client
    stranger: Client
    log: Path

    def play(self) -> None:
        for name, step in CASES.items():
            asking = self.stranger if step.stranger else self.client
            asking.request(step.method, step.path, {**step.headers, "audit-id": name}, step.body)


def _events(log: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["auditID"] in found:
            found[event["auditID"]].append(_comparable(event))
    return found


def _comparable(event: dict[str, Any]) -> dict[str, Any]:
    """Without times, and without the names of the servers' own administrators."""
    assert event.pop("requestReceivedTimestamp").endswith("Z")
    assert event.pop("stageTimestamp").endswith("Z")
    user = event["user"]
    if "system:masters" in user.get("groups", ()):
        user["username"] = "<administrator>"
    user.pop("extra", None)  # how the certificate was verified
    # The verb of the constrained modes, in which kube-apiserver lets an administrator impersonate; here is only the older one.
    assert event.pop("authenticationMetadata", {}) in ({}, {"impersonationConstraint": "impersonate:user-info"})
    event["user"] = user
    found: dict[str, Any] = comparable(event)
    return found


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The events of kube-apiserver and of aggserver, by the names of the cases."""
    folder = tmp_path_factory.mktemp("audit")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    with ExitStack() as stack:
        flags = [
            [f"--audit-policy-file={policy}", f"--audit-log-path={folder / side / 'audit.log'}"] for side in ("theirs", "ours")
        ]
        plane = stack.enter_context(ControlPlane(obtain(os.environ, print), apiserver_arguments=flags[0]))
        server = Standalone(folder / "data", NO_COLLECTOR, *flags[1])
        stack.enter_context(running(server))
        sides = []
        for kubeconfig, log in ((plane.kubeconfig, folder / "theirs"), (server.kubeconfig, folder / "ours")):
            spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": level}} for level in LEVELS]
            made = "".join(f"---\n{json.dumps(entry)}\n" for entry in (DEFINITION, *spaces, *ADMISSION))
            plane.kubectl("create", "-f", "-", user=kubeconfig, input=made)
            plane.kubectl("wait", "--for=condition=Established", f"crd/things.{GROUP}", KUBECTL_LIMIT, user=kubeconfig)
            client = stack.enter_context(Client(kubeconfig))
            sides.append(Side(client, stack.enter_context(Client(kubeconfig, certificate=False)), log / "audit.log"))
            _until_admission_is_known(client, log / "audit.log")
        for side in sides:
            side.play()
        upstream, ours = (eventually(partial(_complete, side.log), "the last event") for side in sides)
        yield upstream, ours


def _complete(log: Path) -> dict[str, Any] | None:
    events = _events(log)
    return events if events["namespace"] and events["namespace"][-1]["stage"] == "ResponseComplete" else None


def _until_admission_is_known(client: Client, log: Path) -> None:
    """kube-apiserver learns of policies and webhooks in its own time, and tells so in the events."""
    body = json.dumps(_thing("tried", spec={"color": "red"})).encode()

    def known() -> bool:
        client.request("POST", _things(LEVELS[0], query="dryRun=All"), {"content-type": "application/json"}, body)
        last = log.read_text().rstrip().rpartition("\n")[2]
        return "validation_failure" in last and "failed-open" in last

    eventually(known, "admission is known")


@pytest.mark.parametrize("case", CASES)
def test_the_same_events(logs: tuple[dict[str, Any], dict[str, Any]], case: str) -> None:
    upstream, ours = logs
    assert ours[case] == upstream[case]
