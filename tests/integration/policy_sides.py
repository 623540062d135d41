"""kube-apiserver and aggserver with the same admission policies, for the cases of `cases_policies.py`.

A case has policies of its own: they select its namespace by a label, so that all cases are configured at once. kube-apiserver
stores the policies with its defaults, and aggserver, in this process, gets them as stored there.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from aggserver.admission.policy.plugins import MutatingAdmissionPolicies, ValidatingAdmissionPolicies
from aggserver.admission.sources import Collection, Params
from aggserver.app.policy_checks import policy_checks
from aggserver.authorization.delegating import StandaloneAuthorizer
from aggserver.meta.json_types import JSONObject
from aggserver.standalone.sources import OwnParams
from tests.controlplane.cluster import Cluster
from tests.fakes.server import ADMIN, LocalServer
from tests.integration.comparison import Ask, Case, Seen, play
from tests.integration.raw import Answer, Client

__all__ = ["GROUP", "PolicyCase", "PolicySides", "policy_sides"]

GROUP = "policies.example.com"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JSON = {"content-type": "application/json"}
# Seconds until kube-apiserver has noticed all policies and the kinds of params, which it looks for every 30 s.
_PATIENCE = 90.0
_PROBE = "zz-probe"
# Those of a LocalServer are not random.
_UID = re.compile(r'"uid": "[^"]*"')
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

    def __init__(self, cases: Mapping[str, PolicyCase], upstream: Client, ours: Any) -> None:
        self._cases = cases
        self._sides = upstream, ours

    def play(self, name: str) -> tuple[list[Seen], list[Seen]]:
        case = self._cases[name]
        steps = [_placed(step, slug(name)) for step in case.steps]
        upstream, ours = ([_without_uids(seen) for seen in play(steps, "thing", client, client)] for client in self._sides)
        return upstream, ours


def _without_uids(seen: Seen) -> Seen:
    return replace(seen, body=json.loads(_UID.sub('"uid": "<uid>"', json.dumps(seen.body))))


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


class _Local:
    """A LocalServer with the plugins, on a loop of its own. `request` is that of `raw.Client`."""

    def __init__(self, definitions: Sequence[JSONObject], namespaces: Sequence[str], stored: Sequence[JSONObject]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._run(self._start(definitions, namespaces, stored))
        self._client = self._server.client(ADMIN)

    def request(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Answer:
        given = dict(headers or {})
        kind = given.pop("content-type", "")
        answer = self._run(self._client.request(method, path, body, headers=given, content_type=kind))
        found: dict[str, list[str]] = {}
        for name, value in answer.headers:
            found.setdefault(name.decode(), []).append(value.decode("latin-1"))
        return Answer(answer.status, found, answer.body)

    def close(self) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._params.stop()
        await self._server.stop()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _start(
        self, definitions: Sequence[JSONObject], namespaces: Sequence[str], stored: Sequence[JSONObject]
    ) -> LocalServer:
        kinds = {kind: Collection() for kind in _PLURALS}
        for each in stored:
            kinds[each["kind"]].put(each)
        authorize = policy_checks(StandaloneAuthorizer())

        async def find_namespace(name: str) -> JSONObject | None:
            answer = await server.client(ADMIN).request("GET", f"/api/v1/namespaces/{name}")
            found: JSONObject | None = json.loads(answer.body) if answer.status == 200 else None
            return found

        async def find_params(api_version: str, kind: str) -> Params | None:
            return await self._params.find(api_version, kind)

        def plugin(of: Any, kind: str) -> Any:
            return of(kinds[kind], kinds[f"{kind}Binding"], find_namespace, find_params, authorize)

        server = LocalServer(
            mutating_plugins=[plugin(MutatingAdmissionPolicies, "MutatingAdmissionPolicy")],
            validating_plugins=[plugin(ValidatingAdmissionPolicies, "ValidatingAdmissionPolicy")],
        )
        self._params = OwnParams(server.engine.installer, [kinds["ValidatingAdmissionPolicy"], kinds["MutatingAdmissionPolicy"]])
        await server.start()
        for definition in definitions:
            server.serve(definition)
        for name in namespaces:
            await server.namespace(name)
        return server


@contextmanager
def policy_sides(cluster: Cluster, cases: Mapping[str, PolicyCase], definitions: Sequence[JSONObject]) -> Iterator[PolicySides]:
    cases = {**cases, _PROBE: _PROBING}
    namespaces = [slug(name) for name in cases]
    with Client(cluster.kubeconfig) as client:
        for definition in definitions:
            _create(client, _DEFINITIONS, definition)
        for name in namespaces:
            _create(client, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        _until(partial(_are_established, client, definitions))
        _make_params(client, cases)
        made = [each for name, case in cases.items() for each in configurations(name, case)]
        stored = [_create(client, _path(each), each) for each in made]
        ours = _Local(definitions, namespaces, stored)
        try:
            _make_params(ours, cases)
            _await_effect(client)
            yield PolicySides(cases, client, ours)
        finally:
            ours.close()
            for each in stored:
                client.request("DELETE", f"{_path(each)}/{each['metadata']['name']}")
            for definition in definitions:
                client.request("DELETE", f"{_DEFINITIONS}/{definition['metadata']['name']}")
            for name in namespaces:
                client.request("DELETE", f"/api/v1/namespaces/{name}")


def _are_established(client: Client, definitions: Sequence[JSONObject]) -> bool:
    def is_established(name: str) -> bool:
        status = json.loads(client.request("GET", f"{_DEFINITIONS}/{name}").body).get("status") or {}
        return any(each["type"] == "Established" and each["status"] == "True" for each in status.get("conditions") or ())

    return all(is_established(definition["metadata"]["name"]) for definition in definitions)


def _make_params(client: Any, cases: Mapping[str, PolicyCase]) -> None:
    for name, case in cases.items():
        play([_placed(step, slug(name)) for step in case.params], "", client, client)


def _path(each: JSONObject) -> str:
    return f"{_REGISTRATION}/{_PLURALS[each['kind']]}"


def _create(client: Client, where: str, obj: JSONObject) -> JSONObject:
    answer = client.request("POST", where, _JSON, json.dumps(obj).encode())
    assert answer.status == 201, (obj, answer.body)
    made: JSONObject = json.loads(answer.body)
    return made


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
    """Until kube-apiserver refuses what the last policies make of an object, and knows the kinds of all params."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "probe"}}
    where = f"/apis/{GROUP}/v1/namespaces/{_PROBE}/gadgets?dryRun=All"

    def has_effect() -> bool:
        answer = client.request("POST", where, _JSON, json.dumps(body).encode())
        return b"denied request: mutated" in answer.body and b"failed to" not in answer.body

    _until(has_effect)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.25)
