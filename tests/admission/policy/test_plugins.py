"""Both plugins: which policies see a request, with which object, params, namespace and answers, and what becomes of it.

Many cases are those of upstream's admission_test.go, dispatcher_test.go, plugin_test.go and reinvocationcontext_test.go.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes, Chain, Mutating, Target
from aggserver.admission.policy import evaluating, expressions
from aggserver.admission.policy import validating as core
from aggserver.admission.policy.evaluating import WebhookConditions
from aggserver.admission.policy.hooks import Params
from aggserver.admission.policy.plugins import Lookups, MutatingAdmissionPolicies, ValidatingAdmissionPolicies
from aggserver.cel.library.authz import Check, Decision
from aggserver.merge.atom import DEDUCED, Atom
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject, json_copy
from aggserver.workers import Workers
from tests.admission.policy.requests import NAMESPACE, SHIP, attributes
from tests.admission.policy.test_hooks import Objects

RULE = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["ships"], "operations": ["*"]}
MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


class Kind(list[JSONObject]):
    """Policies or bindings."""

    generation = 0


class Cluster:
    """What both plugins look up. asked: the checks."""

    def __init__(self, **params: Objects) -> None:
        self._params = params
        self.asked: list[Check] = []
        self.namespaces = 0

    async def namespace(self, name: str) -> JSONObject | None:
        self.namespaces += 1
        return NAMESPACE if name == "north" else None

    async def params(self, api_version: str, kind: str) -> Params | None:
        return self._params.get(kind)

    async def authorize(self, attributes: Attributes, check: Check) -> Decision:
        self.asked.append(check)
        return Decision(check.verb == "create", "because")


class Versions:
    """Ships also have a version v2, with `count` for `replicas`."""

    def equivalents(self, subresource: str) -> list[Target]:
        return [Target("example.com", v, "ships", f"example.com/{v}", "Ship") for v in ("v1", "v2")]

    async def convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj["metadata"].get("labels", {}).get("inconvertible"):
            raise errors.internal_error("no way")
        given, wanted = ("count", "replicas") if api_version.endswith("v1") else ("replicas", "count")
        spec = {wanted if key == given else key: value for key, value in obj["spec"].items()}
        return {**obj, "apiVersion": api_version, "spec": spec}

    def type_of(self, target: Target) -> Atom:
        return DEDUCED

    def accept(self, obj: JSONObject) -> None:
        obj["spec"].setdefault("defaulted", True)

    def accept_of_policy(self, obj: JSONObject, api_version: str) -> None:
        self.accept(obj)


def policy(name: str = "p", *, match: Any = None, **spec: Any) -> JSONObject:
    constraints = {"namespaceSelector": {}, "objectSelector": {}, "resourceRules": [RULE], **(match or {})}
    return {"metadata": {"name": name}, "spec": {"matchConstraints": constraints, **spec}}


def deny(name: str = "p", expression: str = "false", **spec: Any) -> JSONObject:
    return policy(name, validations=[{"expression": expression, "message": "no"}], **spec)


def apply(name: str, expression: str, **spec: Any) -> JSONObject:
    return policy(name, mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}], **spec)


def patch(name: str, *expressions: str, **spec: Any) -> JSONObject:
    return policy(name, mutations=[{"patchType": "JSONPatch", "jsonPatch": {"expression": each}} for each in expressions], **spec)


def bind(name: str = "p", end: str = "", **spec: Any) -> JSONObject:
    return {"metadata": {"name": f"b{end}"}, "spec": {"policyName": name, "validationActions": ["Deny"], **spec}}


def validating(policies: Iterable[JSONObject], bindings: Iterable[JSONObject] | None = None, cluster: Any = None) -> Any:
    return _plugin(ValidatingAdmissionPolicies, policies, bindings, cluster)


def mutating(policies: Iterable[JSONObject], bindings: Iterable[JSONObject] | None = None, cluster: Any = None) -> Any:
    return _plugin(MutatingAdmissionPolicies, policies, bindings, cluster)


def _plugin(plugin: Any, policies: Iterable[JSONObject], bindings: Iterable[JSONObject] | None, cluster: Any) -> Any:
    given = list(policies)
    bound = [bind(each["metadata"]["name"]) for each in given] if bindings is None else bindings
    cluster = cluster or Cluster()
    most = (3 * 1024 * 1024,) if plugin is MutatingAdmissionPolicies else ()
    return plugin(Kind(given), Kind(bound), Lookups(cluster.namespace, cluster.params, cluster.authorize), *most)


async def told(plugin: Any, of: Attributes | None = None, obj: JSONObject | None = SHIP, old: JSONObject | None = None) -> str:
    """Why a request is denied, '' if it is not."""
    try:
        await plugin.validate(of or attributes(), obj, old)
    except StatusError as error:
        return error.message.removeprefix('ships.example.com "ada" is forbidden: ')
    return ""


DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"
CONFIGURED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding:"

# A policy, its bindings, and why the request is denied.
VALIDATED: dict[str, tuple[JSONObject, list[JSONObject], str]] = {
    "denied": (deny(), [bind()], DENIED),
    "no binding": (deny(), [], ""),
    "a binding of another policy": (deny(), [bind("q")], ""),
    "another resource": (deny(match={"resourceRules": [{**RULE, "resources": ["boats"]}]}), [bind()], ""),
    "another operation": (deny(match={"resourceRules": [{**RULE, "operations": ["DELETE"]}]}), [bind()], ""),
    "a name": (deny(match={"resourceRules": [{**RULE, "resourceNames": ["ada"]}]}), [bind()], DENIED),
    "another name": (deny(match={"resourceRules": [{**RULE, "resourceNames": ["bob"]}]}), [bind()], ""),
    "excluded": (deny(match={"excludeResourceRules": [RULE]}), [bind()], ""),
    "all resources": (deny(match={"resourceRules": None}), [bind()], DENIED),
    "labels of the object": (deny(match={"objectSelector": {"matchLabels": {"x": "1"}}}), [bind()], DENIED),
    "other labels of the object": (deny(match={"objectSelector": {"matchLabels": {"x": "2"}}}), [bind()], ""),
    "labels of the namespace": (deny(match={"namespaceSelector": {"matchLabels": {"env": "test"}}}), [bind()], DENIED),
    "other labels of the namespace": (deny(match={"namespaceSelector": {"matchLabels": {"env": "x"}}}), [bind()], ""),
    "a binding for other names": (
        deny(),
        [bind(matchResources={"namespaceSelector": {}, "objectSelector": {"matchLabels": {"x": "2"}}})],
        "",
    ),
    "a binding for these names": (
        deny(),
        [bind(matchResources={"namespaceSelector": {}, "objectSelector": {"matchLabels": {"x": "1"}}})],
        DENIED,
    ),
    "a binding without a selector": (
        deny(),
        [bind(matchResources={"namespaceSelector": {}})],
        f"{CONFIGURED} a nil object selector was passed, please ensure selectors are initialized properly",
    ),
    "a policy without a selector": (
        deny(match={"namespaceSelector": None}),
        [bind()],
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: a nil namespace selector was passed, "
        "please ensure selectors are initialized properly",
    ),
    "one of two bindings": (deny(), [bind(end="1", validationActions=["Warn"]), bind(end="2")], DENIED.replace("'b'", "'b2'")),
    "a match condition": (deny(matchConditions=[{"name": "a", "expression": "object.spec.replicas == 2"}]), [bind()], DENIED),
    "a match condition that fails": (deny(matchConditions=[{"name": "a", "expression": "false"}]), [bind()], ""),
    "another version": (deny(match={"resourceRules": [{**RULE, "apiVersions": ["v2"]}], "matchPolicy": "Exact"}), [bind()], ""),
    "an equivalent version": (
        deny(match={"resourceRules": [{**RULE, "apiVersions": ["v2"]}], "matchPolicy": "Equivalent"}),
        [bind()],
        DENIED,
    ),
    "the object in an equivalent version": (
        deny(
            expression="object.spec.count == 2 && object.apiVersion == 'example.com/v2' && request.resource.version == 'v2' "
            "&& request.kind.version == 'v2' && request.requestResource.version == 'v1' && request.requestKind.version == 'v1'",
            match={"resourceRules": [{**RULE, "apiVersions": ["v2"]}], "matchPolicy": "Equivalent"},
        ),
        [bind()],
        "",
    ),
    "an unknown kind of params": (
        deny(paramKind={"apiVersion": "g/v1", "kind": "Nope"}),
        [bind()],
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by "
        "paramKind: 'g/v1, Kind=Nope'",
    ),
    "an unknown kind of the core group": (
        deny(paramKind={"apiVersion": "v1", "kind": "Nope"}),
        [bind()],
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by "
        "paramKind: '/v1, Kind=Nope'",
    ),
    "ignored trouble": (deny(paramKind={"apiVersion": "v1", "kind": "Nope"}, failurePolicy="Ignore"), [bind()], ""),
    "params that are not listed yet": (
        deny(paramKind={"apiVersion": "v1", "kind": "Slow"}),
        [bind(paramRef={"name": "a"})],
        f"{CONFIGURED} paramKind kind `&ParamKind{{APIVersion:v1,Kind:Slow,}}` not yet synced to use for admission",
    ),
    "params": (deny(paramKind=MAP, expression="params.metadata.name != 'a'"), [bind(paramRef={"name": "a"})], DENIED),
    "no params that it could have": (deny(paramKind=MAP, expression="params != null"), [bind()], DENIED),
    "each of the params": (
        deny(paramKind=MAP, expression="params.metadata.name == 'a'"),
        [bind(paramRef={"selector": {}})],
        DENIED,
    ),
    "params that are missing": (deny(paramKind=MAP), [bind(paramRef={"name": "z", "parameterNotFoundAction": "Allow"})], ""),
    "params that are missing, denied": (
        deny(paramKind=MAP),
        [bind(paramRef={"name": "z", "parameterNotFoundAction": "Deny"})],
        f"{CONFIGURED} {NOT_FOUND}",
    ),
    "allowed by the authorizer": (deny(expression="authorizer.requestResource.check('create').allowed()"), [bind()], ""),
    "not allowed by the authorizer": (deny(expression="authorizer.requestResource.check('get').allowed()"), [bind()], DENIED),
}


class Slow(Objects):
    is_known = False


@pytest.mark.parametrize(("given", "bindings", "wanted"), VALIDATED.values(), ids=VALIDATED)
async def test_validated(given: JSONObject, bindings: list[JSONObject], wanted: str) -> None:
    cluster = Cluster(ConfigMap=Objects("north/a", "north/b"), Slow=Slow())
    of = replace(attributes(), objects=Versions())
    assert await told(validating([given], bindings, cluster), of) == wanted


async def test_all_denials_are_found_but_the_first_is_told() -> None:
    plugin = validating([deny("q"), deny("p")])
    with pytest.raises(StatusError) as caught:
        await plugin.validate(attributes(), SHIP, None)
    assert [cause.message for cause in caught.value.causes] == [DENIED]


async def test_an_object_that_cant_be_converted() -> None:
    rule = {"resourceRules": [{**RULE, "apiVersions": ["v2"]}], "matchPolicy": "Equivalent"}
    ship = {**SHIP, "metadata": {**SHIP["metadata"], "labels": {"inconvertible": "yes"}}}
    given = replace(attributes(), objects=Versions())
    assert await told(validating([deny(match=rule)]), given, ship) == (
        f"{CONFIGURED} failed to convert object version: Internal error occurred: no way"
    )


async def test_a_namespace_that_is_not_there() -> None:
    given = replace(attributes(), namespace="gone")
    with pytest.raises(StatusError, match='namespaces "gone" not found'):
        await validating([deny()]).validate(given, SHIP, None)


async def test_cluster_scoped_objects_have_no_namespace() -> None:
    cluster = Cluster()
    given = replace(attributes(), namespace="")
    assert await told(validating([deny(expression="namespaceObject == null")], cluster=cluster), given) == ""
    assert cluster.namespaces == 0


async def test_a_deletion() -> None:
    plugin = validating([deny(expression="object == null && oldObject.spec.replicas == 2 && request.operation == 'DELETE'")])
    assert await told(plugin, attributes(DELETE), None, SHIP) == ""


@pytest.mark.parametrize(
    ("resource", "is_asked"),
    [
        ("validatingadmissionpolicies", False),
        ("validatingadmissionpolicybindings", False),
        ("mutatingadmissionpolicies", False),
        ("mutatingadmissionpolicybindings", False),
        ("validatingwebhookconfigurations", True),
        ("mutatingwebhookconfigurations", True),
    ],
)
async def test_policies_are_exempt_from_policies(resource: str, *, is_asked: bool) -> None:
    """So they can't lock out whoever wants to repair them. Configurations of webhooks are like all other objects."""
    every = policy(
        match={"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]},
        validations=[{"expression": "false"}],
    )
    info = replace(attributes().resource, group="admissionregistration.k8s.io", resource=resource)
    given = replace(attributes(), resource=info, object_version="admissionregistration.k8s.io/v1", namespace="")
    plugin = validating([every])
    assert plugin.concerns(given) is is_asked
    if is_asked:
        with pytest.raises(StatusError):
            await plugin.validate(given, SHIP, None)


async def test_reviews_are_excluded() -> None:
    every = policy(
        match={"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]},
        validations=[{"expression": "false"}],
    )
    info = replace(attributes().resource, group="authorization.k8s.io", resource="selfsubjectaccessreviews")
    plugin = validating([every])
    assert not plugin.concerns(replace(attributes(), resource=info))
    assert plugin.concerns(attributes())


async def test_checks_are_asked_once_for_a_request() -> None:
    cluster = Cluster()
    check = "authorizer.group('').resource('pods').check('create').allowed()"
    plugin = validating([deny("p", f"{check} && {check}"), deny("q", check)], cluster=cluster)
    assert await told(plugin) == ""
    assert cluster.asked == [Check(None, "create", resource="pods")]
    assert await told(plugin) == ""
    assert len(cluster.asked) == 2


async def test_compiled_once_for_many_requests() -> None:
    compiled: list[Any] = []
    plugin = validating([deny()])

    def compile_(spec: Any) -> Any:
        compiled.append(spec)
        return core.compile_policy(spec)

    plugin._compile = compile_
    assert await asyncio.gather(*(told(plugin) for _ in range(20))) == [DENIED] * 20
    assert len(compiled) == 1


async def test_changes_hold_with_the_next_request() -> None:
    plugin = validating([deny(expression="true")])
    policies, bindings = plugin._policies, plugin._bindings
    assert await told(plugin) == ""
    policies[0] = deny()
    policies.generation += 1
    assert await told(plugin) == DENIED
    bindings.clear()
    bindings.generation += 1
    assert await told(plugin) == ""
    bindings.append(bind())
    bindings.generation += 1
    assert await told(plugin) == DENIED
    policies.clear()
    policies.generation += 1
    assert await told(plugin) == ""


async def test_expensive_expressions_are_evaluated_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    evaluate = core.evaluate

    def spy(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return evaluate(*arguments)

    monkeypatch.setattr(core, "evaluate", spy)
    numbers = f"[{', '.join('1' * 100)}]"
    assert await told(validating([deny(expression=f"{numbers}.all(a, {numbers}.all(b, true))")])) == ""
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_what_nobody_waits_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is cancelled while its first expression is evaluated in a thread: the others are not."""
    evaluated: list[str] = []
    begun, may_end = threading.Event(), threading.Event()
    run = expressions.Evaluation.run

    def spy(evaluation: Any, expression: Any) -> Any:
        result = run(evaluation, expression)
        if threading.current_thread() is not threading.main_thread():
            evaluated.append(expression.source)
            begun.set()
            may_end.wait()
        return result

    only_thread = Workers(1, "policies")
    monkeypatch.setattr(evaluating, "_SLOW", only_thread)
    monkeypatch.setattr(expressions.Evaluation, "run", spy)
    numbers = f"[{', '.join('1' * 100)}]"
    slow = f"{numbers}.all(a, {numbers}.all(b, true))"
    plugin = validating([policy(validations=[{"expression": slow}, {"expression": "true"}, {"expression": "1 == 1"}])])
    task = asyncio.create_task(told(plugin))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    await only_thread.run("", 0, lambda: None)  # after what it runs now
    assert evaluated == [slow]


async def test_nothing_is_looked_up_without_policies() -> None:
    cluster = Cluster()
    plugin = validating([deny(match={"resourceRules": [{**RULE, "resources": ["boats"]}]})], cluster=cluster)
    assert not plugin.concerns(attributes())
    assert await told(plugin) == ""
    assert cluster.namespaces == 0
    assert validating([deny()]).concerns(attributes())


# --- mutating ---


async def mutated(
    *policies: JSONObject,
    of: Attributes | None = None,
    bindings: Iterable[JSONObject] | None = None,
    cluster: Any = None,
    **more: Any,
) -> JSONObject:
    """What becomes of SHIP in a chain with the plugin; `spec` and the labels."""
    obj = json_copy(SHIP)
    plugins: list[Mutating] = [mutating(policies, bindings, cluster), *more.get("after", ())]
    await Chain(plugins).bind(of or replace(attributes(), objects=Versions())).mutate(obj, more.get("old"))
    return {"labels": obj["metadata"]["labels"], "spec": obj["spec"]}


UNCHANGED = {"labels": {"x": "1", "y": "2"}, "spec": SHIP["spec"]}


def changed(labels: JSONObject | None = None, **spec: Any) -> JSONObject:
    return {"labels": {"x": "1", "y": "2", **(labels or {})}, "spec": {**SHIP["spec"], "defaulted": True, **spec}}


COUNT = "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"


async def test_applied() -> None:
    assert await mutated(apply("p", COUNT)) == changed(replicas=3)


async def test_patched() -> None:
    assert await mutated(patch("p", "[JSONPatch{op: 'add', path: '/metadata/labels/z', value: '3'}]")) == changed({"z": "3"})


async def test_mutations_in_order() -> None:
    given = policy(
        mutations=[
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": COUNT}},
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 100}]"
                },
            },
        ]
    )
    assert await mutated(given) == changed(replicas=103)


async def test_no_policy_matches() -> None:
    assert await mutated(apply("p", COUNT, match={"resourceRules": [{**RULE, "resources": ["boats"]}]})) == UNCHANGED
    assert await mutated(apply("p", COUNT, matchConditions=[{"name": "a", "expression": "false"}])) == UNCHANGED
    assert await mutated(apply("p", COUNT), bindings=[]) == UNCHANGED


async def test_policies_in_order_of_their_names() -> None:
    """Each sees what the one before has made, and the defaults of its version."""
    second = apply("q", "Object{spec: Object.spec{replicas: object.spec.replicas * 10, again: object.spec.defaulted}}")
    assert await mutated(second, apply("p", COUNT)) == changed(replicas=30, again=True)


async def test_params() -> None:
    cluster = Cluster(ConfigMap=Objects("north/a", "north/b"))
    given = apply("p", "Object{metadata: Object.metadata{labels: {params.metadata.name: 'here'}}}", paramKind=MAP)
    made = await mutated(given, bindings=[bind(paramRef={"selector": {}})], cluster=cluster)
    assert made == changed({"a": "here", "b": "here"})


async def test_another_version() -> None:
    """The object is converted for the policy and back."""
    rule = {"resourceRules": [{**RULE, "apiVersions": ["v2"]}], "matchPolicy": "Equivalent"}
    given = apply("p", "Object{spec: Object.spec{count: object.spec.count + 1}}", match=rule)
    assert await mutated(given) == changed(replicas=3)


async def test_deletions_are_not_mutated() -> None:
    given = attributes(DELETE)
    assert not await mutating([apply("p", COUNT)]).mutate(given, None, SHIP)


async def test_an_update_sees_the_old_object() -> None:
    given = apply("p", "Object{spec: Object.spec{replicas: oldObject.spec.replicas + 5}}")
    of = replace(attributes(UPDATE), objects=Versions())
    assert await mutated(given, of=of, old=SHIP) == changed(replicas=7)


class Marks:
    """A plugin that adds a mark in the first round, and asks for a second one."""

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        assert obj is not None
        if attributes.reinvocation.again:
            return False
        obj["spec"]["mark"] = 1
        attributes.reinvocation.wanted = True
        return True


ONCE = "Object{spec: Object.spec{count: has(object.spec.count) ? object.spec.count + 1 : 1}}"

# Policies (name, expression, reinvocationPolicy), whether another plugin changes the object, and how often each counted.
ROUNDS: dict[str, tuple[list[tuple[str, str, str]], bool, JSONObject]] = {
    "never again": ([("p", ONCE, "Never")], True, {"count": 1, "mark": 1}),
    "again, since its own change counts": ([("p", ONCE, "IfNeeded")], False, {"count": 2}),
    "again, since another plugin has changed it": ([("p", ONCE, "IfNeeded")], True, {"count": 2, "mark": 1}),
    "both again": ([("p", ONCE, "IfNeeded"), ("q", ONCE.replace("count", "other"), "IfNeeded")], False, {"count": 2, "other": 2}),
    "the first again": (
        [("p", ONCE, "IfNeeded"), ("q", ONCE.replace("count", "other"), "Never")],
        False,
        {"count": 2, "other": 1},
    ),
    "none again": ([("p", ONCE, "Never"), ("q", ONCE.replace("count", "other"), "Never")], False, {"count": 1, "other": 1}),
}


@pytest.mark.parametrize(("policies", "marked", "wanted"), ROUNDS.values(), ids=ROUNDS)
async def test_reinvocation(policies: list[tuple[str, str, str]], marked: bool, wanted: JSONObject) -> None:
    given = [apply(name, expression, reinvocationPolicy=again) for name, expression, again in policies]
    assert await mutated(*given, after=[Marks()] if marked else []) == changed(**wanted)


async def test_a_condition_that_another_policy_fulfils() -> None:
    """It was not invoked in the first round, and so is not reinvoked."""
    first = apply(
        "p", ONCE, matchConditions=[{"name": "a", "expression": "has(object.spec.ready)"}], reinvocationPolicy="IfNeeded"
    )
    second = apply("q", "Object{spec: Object.spec{ready: true}}")
    assert await mutated(first, second) == changed(ready=True)


async def refused(*policies: JSONObject) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await mutated(*policies)
    return caught.value


async def test_refused() -> None:
    """All errors are told, and the first is the message."""
    error = await refused(
        patch("p", "[JSONPatch{op: 'remove', path: '/spec/nope'}]", "[]"), apply("q", "Object{spec: Object.nope{}}")
    )
    assert (error.code, error.reason) == (403, "Invalid")
    assert [cause.message for cause in error.causes] == [
        "policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/spec/nope': "
        "Unable to remove nonexistent key: nope: missing value",
        "policy 'p' with binding 'b' denied request: must evaluate to list(JSONPatch) but got list(dyn)",
        "policy 'q' with binding 'b' denied request: type mismatch: unexpected type name \"Object.nope\", expected "
        '"Object.spec", which matches field name path from root Object type',
    ]
    assert error.message == error.causes[0].message
    assert (error.name, error.group, error.kind) == ("ada", "example.com", "ships")


async def test_ignored_errors() -> None:
    broken = apply("p", "Object{spec: Object.nope{}}", failurePolicy="Ignore")
    assert await mutated(broken, apply("q", COUNT)) == changed(replicas=3)


async def test_misconfigured() -> None:
    error = await refused(apply("p", COUNT, paramKind={"apiVersion": "v1", "kind": "Nope"}))
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'policy "p" denied request: failed to configure policy: failed to find resource referenced by paramKind: '
        "'/v1, Kind=Nope'"
    )


async def test_a_match_condition_that_fails() -> None:
    error = await refused(apply("p", COUNT, matchConditions=[{"name": "a", "expression": "object.nope"}]))
    assert error.message == ("policy 'p' with binding 'b' denied request: compilation error: must evaluate to bool but got dyn")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("[1]", "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct {"),
        ("{'a': 1}", "Object 'Kind' is missing in '{\"a\":1}'"),
    ],
    ids=["a list", "an object without a kind"],
)
async def test_no_object_is_left(value: str, shown: str) -> None:
    error = await refused(patch("p", f"[JSONPatch{{op: 'replace', path: '', value: {value}}}]"))
    assert (error.code, error.reason) == (500, "InternalError")
    assert error.message.startswith(f"Internal error occurred: {shown}")


# --- match conditions of webhooks ---


async def test_conditions_of_webhooks() -> None:
    cluster = Cluster()
    expressions = [
        "object.spec.replicas == 2",
        "oldObject != null",
        "authorizer.requestResource.check('create').allowed()",
        "object.spec.nope == 1",
    ]
    conditions = WebhookConditions(cluster.authorize).compile([{"name": "a", "expression": each} for each in expressions])
    results = await conditions(attributes(CREATE), Target.requested(attributes()), SHIP, None)
    assert results[:3] == [True, False, True]
    assert str(results[3]) == "expression 'object.spec.nope == 1' resulted in error: no such key: nope"
    assert len(cluster.asked) == 1
