"""The plugins that ask webhooks, with the cases of upstream's tests under their names.

The webhooks here answer in memory. `test_bad_webhooks.py` has bad ones over TLS, and tests/integration/test_same_webhooks.py
compares with kube-apiserver.
Source: k8s.io/apiserver pkg/admission/plugin/webhook/testing/{testcase,webhook_server}.go, .../mutating/plugin_test.go,
.../validating/plugin_test.go, .../matchconditions/matcher_test.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes, Chain, Target
from aggserver.admission.webhook_configurations import WebhookIndex, judge
from aggserver.admission.webhooks import MutatingWebhooks, ValidatingWebhooks, WebhookCalls
from aggserver.authentication.user import UserInfo
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.webhook.answers import WebhookError
from aggserver.webhook.config import ClientConfig
from tests.fakes.clock import settled

INFO = ResourceInfo("g", "v1", "pods", "Pod", "PodList", namespaced=True)
EVERYTHING = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]
NOTHING = [{"operations": ["CREATE"]}]
NOT_LABELLED = {"matchLabels": {"label": "nonexistent"}}
REMOVE = base64.b64encode(b'[{"op": "remove", "path": "/metadata/labels/remove"}]').decode()
ADD = base64.b64encode(b'[{"op": "add", "path": "/metadata/labels/added", "value": "test"}]').decode()

ANSWERS: dict[str, Any] = {
    "disallow": {"allowed": False, "status": {"code": 403}},
    "disallowReason": {"allowed": False, "status": {"code": 403, "message": "you shall not pass"}},
    "shouldNotBeCalled": {"allowed": False, "status": {"code": 403, "message": "was called"}},
    "allow": {"allowed": True, "auditAnnotations": {"key1": "value1"}},
    "removeLabel": {"allowed": True, "patchType": "JSONPatch", "patch": REMOVE, "auditAnnotations": {"key1": "value1"}},
    "addLabel": {"allowed": True, "patchType": "JSONPatch", "patch": ADD},
    "invalidPatch": {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(b"[{").decode()},
    "invalidMutation": {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(b'[{"op": "add", "CORRUPTED_KEY":}]').decode(),
    },
    "nilResponse": None,
    "invalidAnnotation": {"allowed": True, "auditAnnotations": {"invalid*key": "value1"}},
    "noop": {"allowed": True},
}


class Caller:
    """Answers by the path of the URL. `asked` has the paths, in the order of the calls, `bodies` the reviews."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bodies: list[JSONObject] = []
        self.timeouts: list[float] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def call(self, config: ClientConfig, body: bytes, *, timeout: float, max_bytes: int) -> bytes:  # noqa: ASYNC109
        path = config.url.rpartition("/")[2]
        self.asked.append(path)
        self.bodies.append(json.loads(body))
        self.timeouts.append(timeout)
        if path in self.gates:
            await self.gates[path].wait()
        if path == "internalErr":
            raise WebhookError("an error on the server", code=500)
        if path == "nonStatusError":
            raise WebhookError('Post "https://x/nonStatusError?timeout=10s": net/http: malformed HTTP response')
        return json.dumps({"response": ANSWERS[path]}).encode()


class Configured:
    def __init__(self, *configurations: JSONObject) -> None:
        self.generation = 1
        self.found = list(configurations)

    def __iter__(self) -> Iterator[JSONObject]:
        return iter(self.found)


def webhook(path: str, name: str = "", **more: Any) -> JSONObject:
    return {
        "name": name or path,
        "clientConfig": {"url": f"https://127.0.0.1/{path}"},
        "rules": EVERYTHING,
        "namespaceSelector": {},
        "objectSelector": {},
        "admissionReviewVersions": ["v1beta1"],
        "sideEffects": "None",
        **more,
    }


def configuration(*webhooks: JSONObject, name: str = "test-webhooks") -> JSONObject:
    return {"metadata": {"name": name}, "webhooks": list(webhooks)}


class Counted:
    """An observer: what it was told, by kind of observation."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def note(*given: Any, **more: Any) -> None:
            told = tuple(value for value in (*given, *more.values()) if not isinstance(value, float))
            self.seen.append((name, *told))

        return note


async def labels(name: str) -> Mapping[str, str]:
    return {"runlevel": "0"}


def never(conditions: Sequence[JSONObject]) -> Any:
    raise AssertionError("no matchConditions here")


class World:
    """Both plugins with the same webhooks, in a chain."""

    def __init__(self, *webhooks: JSONObject, compile_conditions: Any = never, configurations: Configured | None = None) -> None:
        self.caller = Caller()
        self.counted = Counted()
        self.configured = configurations or Configured(configuration(*webhooks))
        calls = WebhookCalls(self.caller, labels, lambda: "uid-1", self.counted)  # type: ignore[arg-type]
        mutating = MutatingWebhooks(WebhookIndex(self.configured, compile_conditions), calls)
        self.chain = Chain([mutating])
        validating = ValidatingWebhooks(WebhookIndex(self.configured, compile_conditions), calls)
        self.validating = Chain(validating=[validating])

    async def mutate(self, obj: JSONObject, old: JSONObject | None = None, *, dry_run: bool = False) -> Attributes:
        found = attributes(dry_run=dry_run)
        await self.chain.bind(found).mutate(obj, old or pod())
        return found

    async def validate(self, *, dry_run: bool = False) -> Attributes:
        found = attributes(dry_run=dry_run)
        await self.validating.bind(found).validate(pod(), pod())
        return found


def attributes(operation: str = UPDATE, *, dry_run: bool = False, **more: Any) -> Attributes:
    return Attributes(operation, UserInfo("a"), INFO, "", "Pod", "g/v1", "ns", "my-pod", dry_run=dry_run, **more)


@dataclass(frozen=True)
class Origin:
    """`RequestOrigin` of a request that ends at a deadline."""

    deadline: float
    verb: str = "update"
    subresource: str = ""
    field_manager: str = ""
    audit_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict)


def pod(**more: str) -> JSONObject:
    metadata = {"name": "my-pod", "labels": {"pod.name": "my-pod", **more}}
    return {"apiVersion": "g/v1", "kind": "Pod", "metadata": metadata}


IGNORE = {"failurePolicy": "Ignore"}
FAIL = {"failurePolicy": "Fail"}
FAILING = ("internalErr A", "internalErr B", "internalErr C")
OPEN = "failed-open.validating.webhook.admission.k8s.io/round_0_index_"
KEY1 = {"allow.example.com/key1": "value1"}
LEVEL = {"matchExpressions": [{"key": "runlevel", "operator": "In", "values": ["1"]}]}
NOT_LEVEL = {"matchExpressions": [{"key": "runlevel", "operator": "NotIn", "values": ["0"]}]}

Case = tuple[Sequence[JSONObject], bool, Any]

# name of upstream's case: (webhooks, dry run, (code, a part of the text) of the refusal, or the audit annotations).
NON_MUTATING: dict[str, Case] = {
    "no match": ([webhook("disallow", rules=NOTHING)], False, {}),
    "match & allow": ([webhook("allow", "allow.example.com")], False, KEY1),
    "match & disallow": ([webhook("disallow")], False, (403, "without explanation")),
    "match & disallow ii": ([webhook("disallowReason")], False, (403, "you shall not pass")),
    "match & disallow & but allowed because namespaceSelector exempt the ns": (
        [webhook("disallow", namespaceSelector=LEVEL)],
        False,
        {},
    ),
    "match & disallow & but allowed because namespaceSelector exempt the ns ii": (
        [webhook("disallow", namespaceSelector=NOT_LEVEL)],
        False,
        {},
    ),
    "match & fail (but allow because fail open)": (
        [webhook("internalErr", name, **IGNORE) for name in FAILING],
        False,
        {f"{OPEN}{number}": name for number, name in enumerate(FAILING)},
    ),
    "match & fail (but disallow because fail close on nil FailurePolicy)": (
        [webhook("internalErr", name) for name in FAILING],
        False,
        (500, 'failed calling webhook "internalErr A": failed to call webhook: an error on the server'),
    ),
    "match & fail (but fail because fail closed)": (
        [webhook("internalErr", name, **FAIL) for name in FAILING],
        False,
        (500, "failed calling webhook"),
    ),
    "match & invalid client config": (
        [webhook("allow", "invalidClientConfig", clientConfig={})],
        False,
        (500, "could not get REST client"),
    ),
    "match & non-status error": ([webhook("nonStatusError")], False, (500, "failed to call webhook")),
    "absent response and fail open": ([webhook("nilResponse", **IGNORE)], False, {f"{OPEN}0": "nilResponse"}),
    "absent response and fail closed": ([webhook("nilResponse", **FAIL)], False, (500, "webhook response was absent")),
    "no match dry run": ([webhook("allow", rules=NOTHING, sideEffects="Some")], True, {}),
    "match dry run side effects Unknown": (
        [webhook("allow", sideEffects="Unknown")],
        True,
        (400, 'admission webhook "allow" does not support dry run'),
    ),
    "match dry run side effects None": ([webhook("allow", sideEffects="None")], True, {"allow/key1": "value1"}),
    "match dry run side effects Some": ([webhook("allow", sideEffects="Some")], True, (400, "does not support dry run")),
    "match dry run side effects NoneOnDryRun": ([webhook("allow", sideEffects="NoneOnDryRun")], True, {"allow/key1": "value1"}),
    "dry run side effects nil": (
        [webhook("allow", sideEffects=None)],
        True,
        (500, 'calling webhook "allow": Webhook SideEffects is nil'),
    ),
    "no version that is known": (
        [webhook("allow", admissionReviewVersions=["v7"])],
        False,
        (500, "could not create admission objects"),
    ),
    "illegal annotation format": ([webhook("invalidAnnotation")], False, {}),
    "skip webhook whose objectSelector does not match": (
        [webhook("allow", "allow.example.com"), webhook("shouldNotBeCalled", objectSelector=NOT_LABELLED)],
        False,
        KEY1,
    ),
}


@pytest.mark.parametrize("case", NON_MUTATING)
async def test_validate(case: str) -> None:
    webhooks, dry_run, wanted = NON_MUTATING[case]
    world = World(*webhooks)
    if isinstance(wanted, dict):
        assert (await world.validate(dry_run=dry_run)).audit_annotations == wanted
        return
    code, text = wanted
    with pytest.raises(StatusError) as raised:
        await world.validate(dry_run=dry_run)
    assert (raised.value.code, text in raised.value.message) == (code, True), raised.value.message


async def test_a_patch_is_told_where_objects_are_audited() -> None:
    key = "patch.webhook.admission.k8s.io/round_0_index_0"
    for audits in (False, True):
        world, found = World(webhook("addLabel")), attributes(audits_objects=audits)
        await world.chain.bind(found).mutate(pod(), pod())
        assert (key in found.audit_annotations) is audits
    told = json.loads(found.audit_annotations[key])
    assert list(told) == ["configuration", "webhook", "patch", "patchType"]
    assert (told["webhook"], told["patchType"], list(told["patch"][0])) == ("addLabel", "JSONPatch", ["op", "path", "value"])


@pytest.mark.parametrize("case", NON_MUTATING)
async def test_admit_without_patches(case: str) -> None:
    """Upstream runs the same cases with the mutating plugin."""
    webhooks, dry_run, wanted = NON_MUTATING[case]
    world, obj = World(*webhooks), pod()
    if isinstance(wanted, dict):
        found = (await world.mutate(obj, dry_run=dry_run)).audit_annotations
        told = {key.replace("mutation.", "validating."): text for key, text in found.items() if not key.startswith("mutation.")}
        assert told == wanted
        assert obj == pod()
        return
    code, text = wanted
    with pytest.raises(StatusError) as raised:
        await world.mutate(obj, dry_run=dry_run)
    assert (raised.value.code, text in raised.value.message) == (code, True), raised.value.message


def mutated(name: str, *, changed: bool, index: int = 0) -> dict[str, str]:
    told = f'{{"configuration":"test-webhooks","webhook":"{name}","mutated":{str(changed).lower()}}}'
    return {f"mutation.webhook.admission.k8s.io/round_0_index_{index}": told}


REMOVED = {"removelabel.example.com/key1": "value1", **mutated("removelabel.example.com", changed=True)}
TO_REMOVE = {"objectSelector": {"matchLabels": {"remove": "me"}}}
AGAIN = {"reinvocationPolicy": "IfNeeded"}

# name of upstream's case: (webhooks, dry run, labels before, labels after or (code, text), audit annotations).
MUTATING: dict[str, tuple[Sequence[JSONObject], bool, dict[str, str], Any, dict[str, str]]] = {
    "match & remove label": ([webhook("removeLabel", "removelabel.example.com")], False, {"remove": "me"}, {}, REMOVED),
    "match & add label": ([webhook("addLabel")], False, {}, {"added": "test"}, mutated("addLabel", changed=True)),
    "match & invalid mutation": (
        [webhook("invalidMutation")],
        False,
        {},
        (500, "invalid character"),
        mutated("invalidMutation", changed=False),
    ),
    "match & invalid patch": (
        [webhook("invalidPatch")],
        False,
        {},
        (500, "unexpected end of JSON input"),
        mutated("invalidPatch", changed=False),
    ),
    "match & invalid patch fail open": (
        [webhook("invalidPatch", **IGNORE)],
        False,
        {},
        {},
        {
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0": "invalidPatch",
            **mutated("invalidPatch", changed=False),
        },
    ),
    "match & non-status error": (
        [webhook("nonStatusError")],
        False,
        {},
        (500, "failed to call webhook"),
        mutated("nonStatusError", changed=False),
    ),
    "match & remove label dry run unsupported": (
        [webhook("removeLabel", sideEffects="Unknown")],
        True,
        {},
        (400, "does not support dry run"),
        mutated("removeLabel", changed=False),
    ),
    "first webhook remove labels, second webhook shouldn't be called": (
        [webhook("removeLabel", "removelabel.example.com", **TO_REMOVE), webhook("shouldNotBeCalled", **TO_REMOVE)],
        False,
        {"remove": "me"},
        {},
        REMOVED,
    ),
}


@pytest.mark.parametrize("case", MUTATING)
async def test_admit(case: str) -> None:
    webhooks, dry_run, before, after, annotations = MUTATING[case]
    # Upstream compares the object with the one before, too; here that is the same.
    world, obj, found = World(*webhooks), pod(**before), attributes(dry_run=dry_run)
    bound = world.chain.bind(found)
    if isinstance(after, dict):
        assert await bound.mutate(obj, pod()) is (after != before)
        assert obj == pod(**after)
    else:
        with pytest.raises(StatusError) as raised:
            await bound.mutate(obj, pod())
        assert (raised.value.code, after[1] in raised.value.message) == (after[0], True), raised.value.message
    assert found.audit_annotations == annotations


@pytest.mark.parametrize(
    ("webhooks", "asked"),
    [
        pytest.param(
            [webhook("addLabel", **AGAIN), webhook("removeLabel", **AGAIN)],
            ["addLabel", "removeLabel", "addLabel"],
            id="match & reinvoke if needed policy",
        ),
        pytest.param(
            [webhook("addLabel", reinvocationPolicy="Never"), webhook("removeLabel")],
            ["addLabel", "removeLabel"],
            id="match & never reinvoke policy",
        ),
        pytest.param(
            [webhook("addLabel"), webhook("removeLabel")],
            ["addLabel", "removeLabel"],
            id="match & never reinvoke policy (by default)",
        ),
        pytest.param([webhook("noop", **AGAIN), webhook("noop", "other", **AGAIN)], ["noop", "noop"], id="match & no reinvoke"),
        pytest.param([webhook("addLabel", **AGAIN), webhook("noop")], ["addLabel", "noop"], id="nothing changed after its call"),
    ],
)
async def test_reinvocation(webhooks: Sequence[JSONObject], asked: list[str]) -> None:
    world = World(*webhooks)
    await world.mutate(pod(remove="me"))
    assert world.caller.asked == asked


async def test_another_plugin_changes_the_object() -> None:
    """A policy that changes the object in the second round makes the webhooks be asked again, too."""

    class Policy:
        async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
            assert obj is not None
            attributes.reinvocation.wanted = True
            if attributes.reinvocation.again:
                obj["metadata"]["labels"]["by"] = "policy"
            return attributes.reinvocation.again

    for policy, asked in ((Policy(), ["noop", "noop"]), (None, ["noop"])):
        world = World(webhook("noop", **AGAIN), webhook("allow", rules=NOTHING))
        plugins = [policy] if policy else []
        chain = Chain(
            [*plugins, MutatingWebhooks(WebhookIndex(world.configured, never), WebhookCalls(world.caller, labels, str))]
        )
        await chain.bind(attributes()).mutate(pod(), pod())
        assert world.caller.asked == asked


async def test_a_webhook_does_not_see_the_second_round_first() -> None:
    """One that was not asked in the first round is not asked in the second, though the object matches by then."""
    selected = {"objectSelector": {"matchLabels": {"added": "test"}}}
    world = World(webhook("noop", "late", **AGAIN, **selected), webhook("noop", "early", **AGAIN), webhook("addLabel"))
    await world.mutate(pod())
    assert world.caller.asked == ["noop", "addLabel", "noop"]


async def test_a_patch_for_a_deletion() -> None:
    world = World(webhook("addLabel"))
    with pytest.raises(StatusError) as raised:
        await world.chain.bind(attributes(DELETE)).mutate(None, pod())
    text = 'admission webhook "addLabel" attempted to modify the object, which is not supported for this operation'
    assert raised.value.message == f"Internal error occurred: {text}"


# --- order, and what is asked at the same time ---


async def test_order() -> None:
    configured = Configured(
        configuration(webhook("noop", "b1"), webhook("allow", "b0"), name="b"), configuration(webhook("addLabel", "a1"), name="a")
    )
    world = World(configurations=configured)
    await world.mutate(pod())
    assert world.caller.asked == ["addLabel", "noop", "allow"]


async def test_changed_configurations() -> None:
    world = World(webhook("allow"))
    await world.validate()
    world.configured.found.append(configuration(webhook("noop"), name="other"))
    await world.validate()
    assert world.caller.asked == ["allow", "allow"]  # the generation says that nothing has changed
    world.configured.generation += 1
    await world.validate()
    assert sorted(world.caller.asked[2:]) == ["allow", "noop"]
    world.configured.found.clear()
    world.configured.generation += 1
    await world.validate()
    assert len(world.caller.asked) == 4


async def test_a_configuration_is_parsed_once() -> None:
    compiled: list[Any] = []

    def compiling(conditions: Sequence[JSONObject]) -> Any:
        compiled.append(conditions)
        return holding(True)

    first = configuration(webhook("allow", matchConditions=[{"name": "a", "expression": "true"}]), name="first")
    configured = Configured(first)
    world = World(configurations=configured, compile_conditions=compiling)
    await world.validate()
    configured.found.append(configuration(webhook("noop"), name="second"))
    configured.generation += 1
    await world.validate()
    assert len(compiled) == 1


async def test_validating_at_the_same_time() -> None:
    world = World(webhook("allow"), webhook("noop"), webhook("disallow", **IGNORE))
    gate = world.caller.gates["allow"] = asyncio.Event()
    task = asyncio.create_task(world.validate())
    await settled()
    assert len(world.caller.asked) == 3
    gate.set()
    with pytest.raises(StatusError, match="without explanation"):
        await task


async def test_the_first_to_refuse_gives_the_error() -> None:
    world = World(webhook("disallow"), webhook("disallowReason"))
    gate = world.caller.gates["disallow"] = asyncio.Event()
    task = asyncio.create_task(world.validate())
    await settled()
    assert len(world.caller.asked) == 2
    gate.set()
    with pytest.raises(StatusError, match="you shall not pass"):
        await task


async def test_cancelling_ends_the_calls() -> None:
    world = World(webhook("allow"), webhook("noop"))
    world.caller.gates["allow"] = asyncio.Event()
    task = asyncio.create_task(world.validate())
    await settled()
    assert len(world.caller.asked) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("left", "given", "wanted"), [(100.0, 7, 7), (2.5, 7, 3), (-1.0, 7, 1), (100.0, None, 10)])
async def test_timeout(left: float, given: int | None, wanted: int) -> None:
    world = World(webhook("allow", timeoutSeconds=given))
    deadline = asyncio.get_running_loop().time() + left
    await world.validating.bind(attributes(origin=Origin(deadline))).validate(pod(), pod())
    assert world.caller.timeouts == [wanted]


async def test_no_webhooks() -> None:
    world = World(webhook("shouldNotBeCalled", rules=[{**EVERYTHING[0], "resources": ["crontabs"]}]))
    obj = pod()
    assert not await world.chain.bind(attributes()).mutate(obj, None)
    await world.validate()
    assert not world.caller.asked


async def test_configurations_are_never_asked_about() -> None:
    world = World(webhook("shouldNotBeCalled"))
    kind = "ValidatingWebhookConfiguration"
    info = ResourceInfo("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", kind, "", namespaced=False)
    found = Attributes(CREATE, UserInfo("a"), info, "", kind, "admissionregistration.k8s.io/v1", "", "a", dry_run=False)
    obj = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "a"}}
    assert not await world.chain.bind(found).mutate(obj, None)
    await world.validating.bind(found).validate(obj, None)


# --- other versions ---


class Versions:
    """Objects of a resource with versions v1 and v2, whose `version` tells which they were converted to."""

    def __init__(self) -> None:
        self.refuses = False

    def equivalents(self, subresource: str) -> Sequence[Target]:
        return [Target("g", version, "pods", f"g/{version}", "Pod") for version in ("v1", "v2")]

    async def convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        if self.refuses:
            raise StatusError(500, "", "no way")
        if obj["apiVersion"] == api_version:
            return obj
        return {**obj, "apiVersion": api_version, "converted": obj.get("converted", 0) + 1}

    def accept(self, obj: JSONObject) -> None:
        obj["accepted"] = obj["apiVersion"]


V2 = {"matchPolicy": "Equivalent", "rules": [{**EVERYTHING[0], "apiVersions": ["v2"]}]}


async def test_another_version() -> None:
    world = World(webhook("addLabel", **V2), webhook("noop"))
    obj = pod()
    assert await world.chain.bind(attributes(objects=Versions())).mutate(obj, pod())
    asked, after = (body["request"] for body in world.caller.bodies)
    assert (asked["kind"]["version"], asked["resource"]["version"], asked["requestKind"]["version"]) == ("v2", "v2", "v1")
    assert asked["object"] == {**pod(), "apiVersion": "g/v2", "converted": 1}
    assert asked["oldObject"] == {**pod(), "apiVersion": "g/v2", "converted": 1}
    # There and back, with the defaults of v2 after its patch.
    assert obj == {**pod(added="test"), "converted": 2, "accepted": "g/v2"}
    assert (after["object"], after["oldObject"]) == (obj, pod())


async def test_each_version_is_made_once_for_validating() -> None:
    world = World(webhook("noop", "a", **V2), webhook("noop", "b", **V2), webhook("noop", "c"))
    obj = pod()
    await world.validating.bind(attributes(objects=Versions())).validate(obj, None)
    versions = sorted(body["request"]["object"]["apiVersion"] for body in world.caller.bodies)
    assert versions == ["g/v1", "g/v2", "g/v2"]
    assert obj == pod()


async def test_an_object_that_can_not_be_converted() -> None:
    objects = Versions()
    objects.refuses = True
    world = World(webhook("noop", **V2))
    with pytest.raises(StatusError) as raised:
        await world.chain.bind(attributes(objects=objects)).mutate(pod(), None)
    assert raised.value.message == "Internal error occurred: Internal error occurred: no way"
    with pytest.raises(StatusError) as raised:
        await world.validating.bind(attributes(objects=objects)).validate(pod(), None)
    assert raised.value.message == "Internal error occurred: no way"


async def test_an_object_in_its_stored_version() -> None:
    """A change of metadata alone is made in the stored version, which need not be the request's."""
    stored = {**pod(), "apiVersion": "g/v2"}
    world = World(webhook("addLabel"))
    assert await world.chain.bind(attributes(objects=Versions())).mutate(stored, {**pod(), "apiVersion": "g/v2"})
    assert world.caller.bodies[0]["request"]["object"]["apiVersion"] == "g/v1"
    assert world.caller.bodies[0]["request"]["oldObject"]["apiVersion"] == "g/v1"
    assert (stored["apiVersion"], stored["metadata"]["labels"]["added"]) == ("g/v2", "test")


# --- matchConditions ---


def holding(*results: bool | Exception) -> Any:
    async def evaluate(attributes: Attributes, target: Target, obj: JSONObject | None, old: JSONObject | None) -> Any:
        return results

    return evaluate


TRUE, FALSE, ERROR = True, False, ValueError("test error")


@pytest.mark.parametrize(
    ("results", "fails_open", "wanted"),
    [
        pytest.param([TRUE], False, True, id="test single matches"),
        pytest.param([TRUE, TRUE], False, True, id="test multiple match"),
        pytest.param([], False, True, id="test empty evals"),
        pytest.param([FALSE], False, False, id="test single no match"),
        pytest.param([FALSE, FALSE], False, False, id="test multiple no match"),
        pytest.param([FALSE, TRUE, TRUE], False, False, id="test mixed with no match first"),
        pytest.param([TRUE, TRUE, FALSE], False, False, id="test mixed with no match last"),
        pytest.param([TRUE, FALSE, TRUE], False, False, id="test mixed with no match middle"),
        pytest.param([ERROR], False, "test error", id="test error, fail policy fail"),
        pytest.param([ERROR], True, False, id="test error, fail policy ignore"),
        pytest.param([TRUE, ERROR, FALSE], False, False, id="test mix of true, errors and false"),
        pytest.param(
            [TRUE, ERROR, TRUE, ValueError("other")],
            False,
            "[test error, other]",
            id="test mix of true, errors and fail policy fail",
        ),
        pytest.param([TRUE, ERROR, TRUE], True, False, id="test mix of true, errors and fail policy ignore"),
        pytest.param([ERROR, ERROR], False, "test error", id="the same error twice"),
    ],
)
def test_match(results: list[bool | Exception], *, fails_open: bool, wanted: bool | str) -> None:
    assert judge(results, fails_open=fails_open) == wanted


@pytest.mark.parametrize(("result", "asked"), [(True, ["allow"]), (False, [])])
async def test_match_conditions(*, result: bool, asked: list[str]) -> None:
    conditions = [{"name": "a", "expression": "x"}]
    world = World(webhook("allow", matchConditions=conditions), compile_conditions=lambda given: holding(result))
    await world.validate()
    assert world.caller.asked == asked
    excluded = ("conditions_excluded", "allow", "validating", "UPDATE")
    assert (excluded in world.counted.seen) is not result


async def test_match_conditions_that_fail() -> None:
    world = World(webhook("allow", matchConditions=[{}]), compile_conditions=lambda given: holding(ValueError("bad")))
    with pytest.raises(StatusError) as raised:
        await world.mutate(pod())
    assert (raised.value.code, raised.value.message) == (403, 'pods.g "my-pod" is forbidden: bad')
    assert ("conditions_failed", "allow", "admit", "UPDATE") in world.counted.seen
    assert not world.caller.asked


# --- what is told ---


async def test_warnings() -> None:
    ANSWERS["warns"] = {"allowed": True, "warnings": ["one", "two"]}
    found = await World(webhook("warns")).validate()
    assert list(found.warnings) == ["one", "two"]


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (webhook("allow"), [("webhook", "allow", "validating", "UPDATE", 200, False)]),
        (
            webhook("disallow"),
            [
                ("webhook_rejection", "disallow", "validating", "UPDATE", "no_error", 403),
                ("webhook", "disallow", "validating", "UPDATE", 403, True),
            ],
        ),
        (
            webhook("nonStatusError"),
            [
                ("webhook", "nonStatusError", "validating", "UPDATE", 503, True),
                ("webhook_rejection", "nonStatusError", "validating", "UPDATE", "calling_webhook_error", 503),
            ],
        ),
        (
            webhook("internalErr", **IGNORE),
            [
                ("webhook", "internalErr", "validating", "UPDATE", 500, False),
                ("webhook_failed_open", "internalErr", "validating"),
            ],
        ),
    ],
)
async def test_metrics(given: JSONObject, seen: list[Any]) -> None:
    world = World(given)
    with suppress(StatusError):
        await world.validate()
    assert world.counted.seen == seen


async def test_a_failing_webhook_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(webhook("internalErr", **IGNORE))
    with caplog.at_level("INFO", "aggserver.webhooks"):
        await world.validate()
        await world.validate()
        world.configured.found = [configuration(webhook("allow", "internalErr", **IGNORE))]
        world.configured.generation += 1
        await world.validate()
    assert [record.getMessage() for record in caplog.records] == [
        "webhook internalErr of test-webhooks fails, and is ignored: failed to call webhook: an error on the server",
        "webhook internalErr of test-webhooks answers again",
    ]


async def test_the_failing_webhooks_that_are_remembered_are_bounded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggserver.admission.webhooks.MAX_FAILING", 2)
    world = World()
    with caplog.at_level("INFO", "aggserver.webhooks"):
        for number in (1, 2, 1, 2, 3, 3, 1):
            world.configured.found = [configuration(webhook("internalErr", **IGNORE), name=f"c{number}")]
            world.configured.generation += 1
            await world.validate()
    logged = [record.getMessage().partition(" of ")[2][:2] for record in caplog.records]
    assert logged == ["c1", "c2", "c3", "c1"]
