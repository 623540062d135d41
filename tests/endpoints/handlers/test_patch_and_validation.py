"""Patches, and fieldValidation on every kind of write."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from aggserver.admission.chain import Chain
from aggserver.merge import patch as patches
from aggserver.meta import codec
from aggserver.registry.rest import Context, Updater, WriteOptions, WriteRequest
from tests.fakes.asgi import Answer, Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab, definition, version
from tests.fakes.server import ADMIN, LocalServer

ONE = f"{CRONTABS_PATH}/one"
STORED = (
    '{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z",'
    '"generation":1,"managedFields":[{"apiVersion":"stable.example.com/v1","fieldsType":"FieldsV1",'
    '"fieldsV1":{"f:spec":{".":{},"f:cronSpec":{},"f:image":{}}},"manager":"unknown","operation":"Update",'
    '"time":"2026-01-02T03:04:05Z"}],"name":"one","namespace":"default","resourceVersion":"3","uid":"uid-2"},"spec":%s}'
)


@pytest.fixture(autouse=True)
async def made(server: LocalServer, client: Client) -> None:
    server.serve(CRONTABS)
    await client.post(CRONTABS_PATH, crontab(image="a"))


async def json_patch(client: Client, operations: Any, target: str = ONE) -> Answer:
    return await client.request("PATCH", target, operations, content_type="application/json-patch+json")


# --- patches ---


PATCHES: dict[str, tuple[Any, dict[str, Any]]] = {
    # name: (patch, the resulting spec)
    "merge adds": ({"spec": {"replicas": 1}}, {"cronSpec": "* * * * *", "image": "a", "replicas": 1}),
    "merge removes": ({"spec": {"image": None}}, {"cronSpec": "* * * * *"}),
    "merge replaces": ({"spec": {"image": "b"}}, {"cronSpec": "* * * * *", "image": "b"}),
    "JSON adds": ([{"op": "add", "path": "/spec/replicas", "value": 1}], {"cronSpec": "* * * * *", "image": "a", "replicas": 1}),
    "JSON removes": ([{"op": "remove", "path": "/spec/image"}], {"cronSpec": "* * * * *"}),
    "JSON tests and replaces": (
        [{"op": "test", "path": "/spec/image", "value": "a"}, {"op": "replace", "path": "/spec/image", "value": "b"}],
        {"cronSpec": "* * * * *", "image": "b"},
    ),
    "of nothing": ({}, {"cronSpec": "* * * * *", "image": "a"}),
}


@pytest.mark.parametrize("name", PATCHES)
async def test_patch(client: Client, name: str) -> None:
    patch, spec = PATCHES[name]
    answer = await (json_patch(client, patch) if isinstance(patch, list) else client.merge(ONE, patch))
    assert (answer.status, answer.json()["spec"]) == (200, spec)
    changed = patch != {}
    assert answer.json()["metadata"]["generation"] == 1 + changed
    assert answer.json()["metadata"]["resourceVersion"] == str(3 + changed)


async def test_a_charset_is_passed_over(client: Client) -> None:
    answer = await client.request("PATCH", ONE, {}, content_type="application/merge-patch+json; charset=utf-8")
    assert answer.status == 200


async def test_patches_do_not_add_up(client: Client) -> None:
    """Each patch is within the limit of bodies, but two of them make the object too large."""
    for number, code in ((0, 200), (1, 413), (2, 413)):
        operation = {"op": "add", "path": f"/spec/{'cronSpec' if number else 'image'}", "value": "x" * 2_500_000}
        answer = await json_patch(client, [operation])
        assert answer.status == code
        assert (await client.merge(ONE, {"spec": {"cronSpec": "x" * 2_500_000}})).status == 413
    assert (answer.json()["reason"], answer.message) == ("RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    assert len((await client.get(ONE)).body) < 3 * 1024 * 1024


async def test_copies_do_not_add_up(client: Client) -> None:
    await client.merge(ONE, {"spec": {"image": "x" * 1_000_000}})
    copies = [{"op": "copy", "from": "/spec/image", "path": f"/spec/{number}"} for number in range(4)]
    answer = await json_patch(client, copies)
    assert (answer.status, answer.message) == (422, "the server rejected our request due to an error in our request")
    assert (await json_patch(client, copies[:3])).status == 200


async def test_what_a_patch_nests_too_deeply(client: Client) -> None:
    operations = [{"op": "add", "path": "/a", "value": {}}]
    for _ in range(400):
        operations += [
            {"op": "add", "path": "/b", "value": {}},
            {"op": "move", "from": "/a", "path": "/b/a"},
            {"op": "move", "from": "/b", "path": "/a"},
        ]
    answer = await json_patch(client, operations)
    assert (answer.status, answer.message) == (422, "the server rejected our request due to an error in our request")


REFUSED_PATCHES: dict[str, tuple[Any, int, str]] = {
    # name: (patch; a list is a JSON patch, code, message)
    "merge that is no JSON": (b"{", 400, "error decoding patch: unexpected end of JSON input"),
    "merge that is an array": (
        b"[1]",
        400,
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
    ),
    "JSON that doesn't apply": (
        [{"op": "test", "path": "/spec/image", "value": "x"}],
        422,
        "the server rejected our request due to an error in our request",
    ),
    "JSON with too much": (
        [{"op": "test", "path": "/kind", "value": "CronTab"}] * 10001,
        413,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    ),
    "another name": (
        {"metadata": {"name": "two"}},
        400,
        "the name of the object (two) does not match the name on the URL (one)",
    ),
    "no name": (
        {"metadata": {"name": None}},
        400,
        "the name of the object (one based on URL) was undeterminable: name must be provided",
    ),
    "another namespace": (
        {"metadata": {"namespace": "other"}},
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another kind": (
        {"kind": "Job"},
        422,
        'Job.stable.example.com "one" is invalid: kind: Invalid value: "Job": must be CronTab',
    ),
    "an old version": (
        {"metadata": {"resourceVersion": "1"}},
        409,
        'Operation cannot be fulfilled on crontabs.stable.example.com "one": the object has been modified; '
        "please apply your changes to the latest version and try again",
    ),
    "labels of a wrong type": (
        {"metadata": {"labels": {"a": 1}}},
        422,
        ' "" is invalid: patch: Invalid value: '
        + json.dumps(STORED % '{"cronSpec":"* * * * *","image":"a"}').replace(
            '\\"managedFields\\":', '\\"labels\\":{\\"a\\":1},\\"managedFields\\":'
        )
        + ": json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
    ),
    "a text": ([{"op": "replace", "path": "", "value": []}], 422, ' "" is invalid: patch: Invalid value: "[]": '),
}


@pytest.mark.parametrize("name", REFUSED_PATCHES)
async def test_refused_patches(client: Client, name: str) -> None:
    patch, code, message = REFUSED_PATCHES[name]
    answer = await (json_patch(client, patch) if isinstance(patch, list) else client.merge(ONE, patch))
    assert answer.message.startswith(message)
    assert answer.message == message or message.endswith(": ")
    assert answer.status == code


async def test_patch_of_what_is_not_there(client: Client) -> None:
    assert (await client.merge(f"{CRONTABS_PATH}/two", {})).message == 'crontabs.stable.example.com "two" not found'


async def test_dry_run_patch(client: Client) -> None:
    answer = await client.merge(f"{ONE}?dryRun=All", {"spec": {"image": "b"}})
    assert (answer.status, answer.json()["spec"]["image"]) == (200, "b")
    assert (await client.get(ONE)).json()["spec"]["image"] == "a"


async def test_a_patch_that_is_overtaken_is_applied_again_and_warns_once(server: LocalServer, client: Client) -> None:
    """Twice, another writer changes the object after the patch has read it, and before it writes it."""
    behind = server.engine.installer.find("stable.example.com", "v1", "crontabs")
    assert behind is not None
    scope = behind.scope("")
    assert scope is not None
    others = iter(("x", "y"))

    class Meddling:
        async def mutate(self, attributes: Any, obj: Any, old: Any) -> bool:
            other = next(others, None)
            if other is not None:

                async def change(current: Any) -> Any:
                    return {**current, "spec": {**current["spec"], "image": other}}

                assert isinstance(scope.rest, Updater)
                await scope.rest.update(WriteRequest(Context(ADMIN, "default"), WriteOptions()), "one", change)
            return False

    scope.admission._mutating = Chain([Meddling()])._mutating
    answer = await client.merge(ONE, {"spec": {"replicas": 4, "odd": 1}})
    assert answer.status == 200
    assert answer.json()["spec"] == {"cronSpec": "* * * * *", "image": "y", "replicas": 4}
    assert answer.warnings == ['299 - "unknown field \\"spec.odd\\""']


@pytest.mark.parametrize("kind", ["merge", "json"])
async def test_a_patch_is_decoded_once(client: Client, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Even with strict validation, which finds repeated keys and unknown members in the decoded patch."""
    decoded: list[bytes] = []
    real = codec.decode_checking_keys

    def counted(body: bytes) -> Any:
        decoded.append(body)
        return real(body)

    monkeypatch.setattr(codec, "decode_checking_keys", counted)
    monkeypatch.setattr(codec, "decode_json", counted)
    if kind == "merge":
        answer = await client.merge(f"{ONE}?fieldValidation=Strict", {"spec": {"image": "b"}})
    else:
        operations = [{"op": "replace", "path": "/spec/image", "value": "b"}]
        answer = await json_patch(client, operations, f"{ONE}?fieldValidation=Strict")
    assert (answer.status, len(decoded)) == (200, 1)


# --- fieldValidation ---


UNKNOWN = {**crontab(image="a"), "odd": 1}
UNKNOWN["spec"] = {**UNKNOWN["spec"], "strange": 1}
DUPLICATE = (
    b'{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"two","resourceVersion":""},'
    b'"spec":{"image":"a","image":"b","foo":1}}'
)


@pytest.mark.parametrize("validation", ["", "Warn"])
async def test_unknown_fields_warn(client: Client, validation: str) -> None:
    body = {**UNKNOWN, "metadata": {"name": "two", "odd": 1}}
    answer = await client.post(f"{CRONTABS_PATH}?fieldValidation={validation}", body)
    assert answer.status == 201
    assert "odd" not in answer.json()
    assert answer.warnings == [
        '299 - "unknown field \\"metadata.odd\\""',
        '299 - "unknown field \\"odd\\""',
        '299 - "unknown field \\"spec.strange\\""',
    ]


async def test_ignore(client: Client) -> None:
    answer = await client.post(f"{CRONTABS_PATH}?fieldValidation=Ignore", DUPLICATE)
    assert (answer.status, answer.json()["spec"], answer.warnings) == (201, {"image": "b"}, [])
    assert (await client.merge(f"{ONE}?fieldValidation=Ignore", {"spec": {"odd": 1}})).warnings == []


STRICT: dict[str, tuple[str, Any, int, str]] = {
    # name: (method, body, code, message)
    "create, unknown": (
        "POST",
        UNKNOWN,
        400,
        'CronTab in version "v1" cannot be handled as a CronTab: '
        'strict decoding error: unknown field "odd", unknown field "spec.strange"',
    ),
    "create, duplicate and unknown": (
        "POST",
        DUPLICATE,
        400,
        'CronTab in version "v1" cannot be handled as a CronTab: strict decoding error: '
        'duplicate field "spec.image", unknown field "spec.foo"',
    ),
    "update": (
        "PUT",
        UNKNOWN,
        400,
        'CronTab in version "v1" cannot be handled as a CronTab: '
        'strict decoding error: unknown field "odd", unknown field "spec.strange"',
    ),
    "merge patch, unknown": (
        "MERGE",
        {"spec": {"odd": 1}},
        422,
        ' "" is invalid: patch: Invalid value: '
        + json.dumps(STORED % '{"cronSpec":"* * * * *","image":"a","odd":1}')
        + ': strict decoding error: unknown field "spec.odd"',
    ),
    "merge patch, duplicate": (
        "MERGE",
        b'{"spec":{"image":"b","image":"c"}}',
        422,
        ' "" is invalid: patch: Invalid value: '
        + json.dumps(STORED % '{"cronSpec":"* * * * *","image":"c"}')
        + ': strict decoding error: duplicate field "spec.image"',
    ),
    "JSON patch": (
        "JSON",
        b'[{"op":"add","path":"/spec/odd","value":1,"value":2,"foo":"bar"}]',
        422,
        ' "" is invalid: patch: Invalid value: '
        + json.dumps(STORED % '{"cronSpec":"* * * * *","image":"a","odd":2}')
        + ': strict decoding error: json patch duplicate field "[0].value", json patch unknown field "[0].foo", '
        'unknown field "spec.odd"',
    ),
}


@pytest.mark.parametrize("name", STRICT)
async def test_strict(client: Client, name: str) -> None:
    method, body, code, message = STRICT[name]
    kinds = {"MERGE": "application/merge-patch+json", "JSON": "application/json-patch+json"}
    answer = await client.request(
        "PATCH" if method in kinds else method,
        f"{CRONTABS_PATH if method == 'POST' else ONE}?fieldValidation=Strict",
        body,
        content_type=kinds.get(method, "application/json"),
    )
    assert (answer.message, answer.status) == (message, code)
    assert (await client.get(ONE)).json()["metadata"]["resourceVersion"] == "3"


async def test_strict_lets_what_is_known_pass(client: Client) -> None:
    answer = await client.post(f"{CRONTABS_PATH}?fieldValidation=Strict", crontab("two", replicas=1))
    assert (answer.status, answer.warnings) == (201, [])


async def test_strict_yaml(client: Client) -> None:
    text = b"apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: two}\nspec:\n  image: a\n  image: b\n"
    answer = await client.post(f"{CRONTABS_PATH}?fieldValidation=Strict", text, content_type="application/yaml")
    assert answer.status == 400
    assert answer.message == (
        'CronTab in version "v1" cannot be handled as a CronTab: strict decoding error: '
        'yaml: unmarshal errors:\n  line 6: key "image" already set in map'
    )


# --- owner references ---


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
REPEATED = (
    "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
    'duplicate UID(s) observed: u"'
)


async def test_repeated_owner_references(client: Client) -> None:
    obj = crontab("two")
    obj["metadata"]["ownerReferences"] = [OWNER, OWNER]
    answer = await client.post(CRONTABS_PATH, obj)
    assert answer.json()["metadata"]["ownerReferences"] == [OWNER]
    assert answer.warnings == [f'299 - ".metadata.ownerReferences contains duplicate entries; {REPEATED}']
    answer = await client.merge(ONE, {"metadata": {"ownerReferences": [OWNER, OWNER]}})
    assert answer.json()["metadata"]["ownerReferences"] == [OWNER]
    assert answer.warnings == [
        f'299 - ".metadata.ownerReferences contains duplicate entries after mutating admission happens; {REPEATED}'
    ]


# --- what takes long ---


# name: (items of a list in the object, the patch, fieldValidation, status)
LONG: dict[str, tuple[int, list[dict[str, Any]], str, int]] = {
    "many operations": (10, [{"op": "add", "path": "/spec/list/0", "value": "a"}] * 500, "Ignore", 200),
    "few operations on a large object": (100_000, [{"op": "add", "path": "/spec/list/0", "value": "a"}], "Ignore", 200),
    "refused by strict decoding": (10, [{"op": "add", "path": "/spec/unknown", "value": "a"}] * 500, "Strict", 422),
    "refused for its kind": (10, [{"op": "replace", "path": "/kind", "value": 1}] * 500, "Strict", 422),
    "does not apply": (10, [{"op": "remove", "path": "/spec/list/0"}] * 500, "Strict", 422),
    "spec into itself": (10, [{"op": "copy", "from": "/spec", "path": "/spec/a"}] * 9999, "Strict", 422),
}


@pytest.mark.parametrize("name", LONG)
async def test_long_patches_are_applied_in_threads(
    server: LocalServer, client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    length, operations, validation, status = LONG[name]
    apply, where = patches.apply_json_patch, set()

    def spy(*args: Any) -> Any:
        where.add(threading.current_thread() is threading.main_thread())
        return apply(*args)

    spec = {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string"}}}}
    server.serve(definition("shirts", "Shirt", version("v1", {"spec": spec})))
    shirts = "/apis/stable.example.com/v1/namespaces/default/shirts"
    shirt = {"apiVersion": "stable.example.com/v1", "kind": "Shirt", "metadata": {"name": "one"}}
    await client.post(shirts, {**shirt, "spec": {"list": ["b"] * length}})
    monkeypatch.setattr(patches, "apply_json_patch", spy)
    answer = await json_patch(client, operations, f"{shirts}/one?fieldValidation={validation}")
    assert (answer.status, where) == (status, {False})


async def test_complaints_about_a_patch_are_bounded(client: Client) -> None:
    """As upstream's decoder: however many members no operation has."""
    given = [{"op": "test", "path": "/kind", "value": "CronTab", **{f"a{number}": 1 for number in range(5000)}}]
    answer = await json_patch(client, given, f"{ONE}?fieldValidation=Strict")
    assert (answer.status, answer.message.count("json patch unknown field")) == (422, 100)


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"spec": null}'])
async def test_a_patch_of_what_is_not_there(client: Client, text: bytes) -> None:
    """The object is looked for first, and the patch read then."""
    kind = {"content-type": "application/merge-patch+json"}
    answer = await client.request("PATCH", f"{CRONTABS_PATH}/none", text, headers=kind)
    assert (answer.status, answer.json()["reason"]) == (404, "NotFound")
