"""Every verb on custom resources, end to end in one process."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from aggserver.endpoints.request import Request
from tests.fakes.asgi import Client
from tests.fakes.clock import settled
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, GROUP, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import LocalServer

ALL_NAMESPACES = f"/apis/{GROUP}/v1/crontabs"
ONE = f"{CRONTABS_PATH}/one"
BETA = ONE.replace("/v1/", "/v1beta1/")


@pytest.fixture(autouse=True)
def served(server: LocalServer) -> None:
    server.serve(CRONTABS)
    server.serve(WIDGETS)


def without(obj: Any, *names: str) -> Any:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in names}}


async def created(client: Client, **spec: Any) -> Any:
    answer = await client.post(CRONTABS_PATH, crontab(**spec))
    assert answer.status == 201, answer.body
    return answer.json()


# --- create ---


def entry(*fields: str) -> dict[str, Any]:
    """managedFields of a client without a manager or a user agent that has written these fields of the spec."""
    return {
        "manager": "unknown",
        "operation": "Update",
        "apiVersion": "stable.example.com/v1",
        "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {".": {}, **{field: {} for field in fields}}},
    }


async def test_create(client: Client) -> None:
    answer = await client.post(CRONTABS_PATH, crontab(image="busybox"))
    assert answer.status == 201
    assert answer.header("content-type") == "application/json"
    assert answer.json() == {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {
            "name": "one",
            "namespace": "default",
            "uid": "uid-2",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "generation": 1,
            "resourceVersion": "3",
            "managedFields": [entry("f:cronSpec", "f:image")],
        },
        "spec": {"cronSpec": "* * * * *", "image": "busybox"},
    }


async def test_create_for_the_whole_cluster(client: Client) -> None:
    obj = widget()
    obj["metadata"]["namespace"] = "default"
    answer = await client.post(WIDGETS_PATH, obj)
    assert answer.status == 201
    assert "namespace" not in answer.json()["metadata"]


async def test_create_sets_what_a_client_may_not(client: Client) -> None:
    obj = crontab()
    obj["metadata"] |= {
        "uid": "mine",
        "creationTimestamp": "2000-01-01T00:00:00Z",
        "deletionTimestamp": "2000-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/x",
        "generation": 7,
    }
    obj["status"] = {"replicas": 1}
    made = (await client.post(CRONTABS_PATH, obj)).json()
    assert made["metadata"].pop("managedFields") == [entry("f:cronSpec")]
    assert made["metadata"].keys() == {"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"}
    assert (made["metadata"]["uid"], made["metadata"]["generation"]) == ("uid-2", 1)
    assert "status" not in made


async def test_create_with_a_generated_name(client: Client) -> None:
    obj = crontab()
    obj["metadata"] = {"generateName": "job-"}
    answer = await client.post(CRONTABS_PATH, obj)
    assert (answer.status, answer.json()["metadata"]["name"]) == (201, "job-bbbbb")


async def test_dry_run_create(client: Client) -> None:
    answer = await client.post(f"{CRONTABS_PATH}?dryRun=All", crontab())
    assert answer.status == 201
    assert "resourceVersion" not in answer.json()["metadata"]
    assert (await client.get(ONE)).status == 404


def changed(obj: Any, path: str, value: Any) -> Any:
    *parents, last = path.split(".")
    inner = obj
    for name in parents:
        inner = inner[name]
    inner[last] = value
    return obj


UNRECOGNIZED = "the object provided is unrecognized (must be of type CronTab): couldn't get version/kind; json parse error: "
STRUCT = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'

REFUSED_BODIES: dict[str, tuple[Any, int, str]] = {
    # name: (body, code, message)
    "nothing": (b" ", 400, UNRECOGNIZED + "unexpected end of JSON input (20)"),
    "no JSON": (b"{nope", 400, UNRECOGNIZED + "invalid character 'n' looking for beginning of object key string ({nope)"),
    "a long one": (
        b'{"apiVersion":"v1","kind":"CronTab","x"',
        400,
        UNRECOGNIZED + 'unexpected end of JSON input ({"apiVersion":"v1","kind":"Cro ...)',
    ),
    "an array": (b"[1]", 400, UNRECOGNIZED + f"json: cannot unmarshal array into Go value of type {STRUCT} (5b315d)"),
    "a text": (b'"x"', 400, UNRECOGNIZED + f"json: cannot unmarshal string into Go value of type {STRUCT} (227822)"),
    "apiVersion of a wrong type": (
        b'{"apiVersion":1}',
        400,
        UNRECOGNIZED + 'json: cannot unmarshal number into Go struct field .apiVersion of type string ({"apiVersion":1})',
    ),
    "kind of a wrong type": (
        b'{"kind":[1]}',
        400,
        UNRECOGNIZED + 'json: cannot unmarshal array into Go struct field .kind of type string ({"kind":[1]})',
    ),
    "another version": (
        changed(crontab(), "apiVersion", "stable.example.com/v1beta1"),
        400,
        "the API version in the data (stable.example.com/v1beta1) "
        "does not match the expected API version (stable.example.com/v1)",
    ),
    "no version": (
        {key: value for key, value in crontab().items() if key != "apiVersion"},
        400,
        "the API version in the data () does not match the expected API version (stable.example.com/v1)",
    ),
    "no kind": (
        b'{"apiVersion":"stable.example.com/v1"}',
        400,
        "the object provided is unrecognized (must be of type CronTab): Object 'Kind' is missing in "
        '\'{"apiVersion":"stable.example.com/v1"}\' ({"apiVersion":"stable.example. ...)',
    ),
    "another kind": (
        changed(crontab(), "kind", "Job"),
        422,
        'Job.stable.example.com "one" is invalid: kind: Invalid value: "Job": must be CronTab',
    ),
    "metadata of a wrong type": (
        changed(crontab(), "metadata", 5),
        400,
        'CronTab in version "v1" cannot be handled as a CronTab: '
        "json: cannot unmarshal number into Go value of type v1.ObjectMeta",
    ),
    "labels of a wrong type": (
        changed(crontab(), "metadata.labels", {"a": 1}),
        400,
        'CronTab in version "v1" cannot be handled as a CronTab: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
    ),
    "another namespace": (
        changed(crontab(), "metadata.namespace", "other"),
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "no name": (
        changed(crontab(), "metadata", {}),
        422,
        'CronTab.stable.example.com "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "a resourceVersion": (
        changed(crontab(), "metadata.resourceVersion", "1"),
        500,
        "resourceVersion should not be set on objects to be created",
    ),
}


@pytest.mark.parametrize("name", REFUSED_BODIES)
async def test_refused_bodies(client: Client, name: str) -> None:
    body, code, message = REFUSED_BODIES[name]
    answer = await client.post(CRONTABS_PATH, body)
    assert (answer.json()["message"], answer.status) == (message, code)
    assert answer.json()["kind"] == "Status"


async def test_yaml_body(client: Client) -> None:
    text = b"apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata:\n  name: one\nspec:\n  replicas: 3\n"
    answer = await client.post(CRONTABS_PATH, text, content_type="application/yaml")
    assert (answer.status, answer.json()["spec"]) == (201, {"replicas": 3})


MEDIA_TYPES = "the body of the request was in an unknown format - accepted media types include: "

REFUSED_TYPES = {
    # name: (method, content type, the accepted types)
    "create": ("POST", "text/plain", "application/json, application/yaml, application/vnd.kubernetes.protobuf"),
    "update": ("PUT", "application/xml", "application/json, application/yaml, application/vnd.kubernetes.protobuf"),
    "strategic merge": (
        "PATCH",
        "application/strategic-merge-patch+json",
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    ),
    "patch without a type": (
        "PATCH",
        "",
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    ),
}


@pytest.mark.parametrize("name", REFUSED_TYPES)
async def test_content_type(client: Client, name: str) -> None:
    method, content_type, accepted = REFUSED_TYPES[name]
    await created(client)
    answer = await client.request(method, CRONTABS_PATH if method == "POST" else ONE, crontab(), content_type=content_type)
    assert (answer.status, answer.json()["reason"], answer.message) == (415, "UnsupportedMediaType", MEDIA_TYPES + accepted)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_too_large(client: Client, method: str) -> None:
    await created(client)
    body = b'{"apiVersion":"' + b"x" * 3 * 1024 * 1024 + b'"}'
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await client.request(method, CRONTABS_PATH if method == "POST" else ONE, body, content_type=content_type)
    assert (answer.status, answer.message) == (413, "Request entity too large: limit is 3145728")


async def test_the_limit_of_a_body_is_3_mib(client: Client) -> None:
    head = b'{"other":"'
    for extra, code in ((0, 200), (1, 413)):
        await created(client) if not extra else None
        body = head + b"x" * (3 * 1024 * 1024 - len(head) - 2 + extra) + b'"}'
        assert len(body) == 3 * 1024 * 1024 + extra
        # Unknown fields are pruned, so that the object stays small.
        answer = await client.merge(ONE, body)
        assert answer.status == code
    assert answer.message == "Request entity too large: limit is 3145728"


async def test_already_exists(client: Client) -> None:
    await created(client)
    answer = await client.post(CRONTABS_PATH, crontab())
    assert (answer.status, answer.json()["reason"]) == (409, "AlreadyExists")
    assert answer.message == 'crontabs.stable.example.com "one" already exists'


# --- get and list ---


async def test_get(client: Client) -> None:
    made = await created(client)
    assert (await client.get(ONE)).json() == made
    assert (await client.get(f"{ONE}?resourceVersion=0")).json() == made


async def test_get_what_is_not_there(client: Client) -> None:
    answer = await client.get(ONE)
    assert answer.status == 404
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'crontabs.stable.example.com "one" not found',
        "reason": "NotFound",
        "details": {"name": "one", "group": "stable.example.com", "kind": "crontabs"},
        "code": 404,
    }


async def test_list(client: Client) -> None:
    empty = (await client.get(CRONTABS_PATH)).json()
    assert (empty["apiVersion"], empty["kind"], empty["items"]) == ("stable.example.com/v1", "CronTabList", [])
    assert empty["metadata"] == {"resourceVersion": "2", "continue": ""}
    made = await created(client)
    listed = (await client.get(CRONTABS_PATH)).json()
    assert listed["items"] == [made]
    assert listed["metadata"] == {"resourceVersion": "3", "continue": ""}
    assert (await client.get(ALL_NAMESPACES)).json()["items"] == [made]


@pytest.mark.parametrize("query", ["", "?pretty=true"])
async def test_items_of_a_go_type_have_no_type(client: Client, query: str) -> None:
    one = (await client.get("/api/v1/namespaces/default")).json()
    listed = (await client.get(f"/api/v1/namespaces{query}")).json()
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "NamespaceList")
    assert listed["items"] == [{name: value for name, value in one.items() if name not in ("apiVersion", "kind")}]


async def test_list_in_parts(client: Client) -> None:
    for name in ("a", "b", "c"):
        await created(client, name=name)
    first = (await client.get(f"{CRONTABS_PATH}?limit=2")).json()
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    rest = (await client.get(f"{CRONTABS_PATH}?limit=2&continue={first['metadata']['continue']}")).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"], "continue": ""}


SELECTIONS = {
    "labelSelector=tier%3Dfront": ["b"],
    "labelSelector=tier": ["b", "c"],
    "labelSelector=%21tier": ["a"],
    "fieldSelector=metadata.name%3Da": ["a"],
    "fieldSelector=metadata.name%21%3Da": ["b", "c"],
    "fieldSelector=metadata.namespace%3Ddefault": ["a", "b", "c"],
    "fieldSelector=metadata.namespace%3Dother": [],
    "fieldSelector=spec.image%3Dx": ["a", "c"],
    "fieldSelector=spec.image%3D": ["b"],
    "labelSelector=tier&fieldSelector=spec.image%3Dx": ["c"],
}


@pytest.mark.parametrize("query", SELECTIONS)
async def test_selectors(client: Client, query: str) -> None:
    for name, image, tier in (("a", "x", ""), ("b", "", "front"), ("c", "x", "back")):
        obj = crontab(name, **({"image": image} if image else {}))
        obj["metadata"]["labels"] = {"tier": tier} if tier else {}
        await client.post(CRONTABS_PATH, obj)
    listed = (await client.get(f"{CRONTABS_PATH}?{query}")).json()
    assert [item["metadata"]["name"] for item in listed["items"]] == SELECTIONS[query]


# --- update ---


async def test_update(client: Client) -> None:
    made = await created(client)
    made["spec"]["replicas"] = 3
    answer = await client.put(ONE, made)
    assert answer.status == 200
    changes = {"resourceVersion": "4", "generation": 2, "managedFields": [entry("f:cronSpec", "f:replicas")]}
    assert answer.json()["metadata"] == {**made["metadata"], **changes}
    assert answer.json()["spec"]["replicas"] == 3


async def test_update_that_changes_nothing(client: Client) -> None:
    made = await created(client)
    assert (await client.put(ONE, made)).json() == made


REFUSED_UPDATES: dict[str, tuple[dict[str, Any], int, str]] = {
    # name: (changes to the metadata in the body, code, message)
    "no resourceVersion": (
        {"resourceVersion": None},
        422,
        'crontabs.stable.example.com "one" is invalid: '
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    ),
    "an old one": (
        {"resourceVersion": "2"},
        409,
        'Operation cannot be fulfilled on crontabs.stable.example.com "one": the object has been modified; '
        "please apply your changes to the latest version and try again",
    ),
    "another name": ({"name": "two"}, 400, "the name of the object (two) does not match the name on the URL (one)"),
    "no name": ({"name": None}, 400, "the name of the object (one based on URL) was undeterminable: name must be provided"),
    "another namespace": (
        {"namespace": "other"},
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another uid": (
        {"uid": "x"},
        409,
        'Operation cannot be fulfilled on crontabs.stable.example.com "one": StorageError: invalid object, Code: 4, '
        "Key: /stable.example.com/crontabs/default/one, ResourceVersion: 0, "
        "AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: uid-2",
    ),
}


@pytest.mark.parametrize("name", REFUSED_UPDATES)
async def test_refused_updates(client: Client, name: str) -> None:
    change, code, message = REFUSED_UPDATES[name]
    made = await created(client)
    made["metadata"] |= change
    answer = await client.put(ONE, made)
    assert (answer.message, answer.status) == (message, code)


async def test_update_creates_nothing(client: Client) -> None:
    obj = crontab()
    obj["metadata"]["resourceVersion"] = "1"
    assert (await client.put(ONE, obj)).message == 'crontabs.stable.example.com "one" not found'


async def test_dry_run_update(client: Client) -> None:
    made = await created(client)
    made["spec"]["replicas"] = 3
    answer = await client.put(f"{ONE}?dryRun=All", made)
    assert (answer.status, answer.json()["spec"]["replicas"]) == (200, 3)
    assert "replicas" not in (await client.get(ONE)).json()["spec"]


# --- subresources ---


async def test_status(client: Client) -> None:
    made = await created(client)
    made["spec"]["replicas"] = 9
    made["metadata"]["labels"] = {"a": "b"}
    made["status"] = {"note": "here", "unknown": 1}
    answer = await client.put(f"{ONE}/status", made)
    assert answer.status == 200
    assert answer.json()["status"] == {"note": "here"}
    assert answer.json()["spec"] == {"cronSpec": "* * * * *"}
    assert "labels" not in answer.json()["metadata"]
    assert answer.json()["metadata"]["generation"] == 1
    assert answer.warnings == ['299 - "unknown field \\"status.unknown\\""']
    assert (await client.get(f"{ONE}/status")).json() == answer.json()


async def test_the_object_itself_keeps_its_status(client: Client) -> None:
    await created(client)
    await client.merge(f"{ONE}/status", {"status": {"note": "here"}})
    answer = await client.merge(ONE, {"status": {"note": "gone"}, "spec": {"replicas": 2}})
    assert (answer.json()["status"], answer.json()["spec"]["replicas"]) == ({"note": "here"}, 2)


async def test_scale(client: Client) -> None:
    await created(client, replicas=2)
    await client.merge(f"{ONE}/status", {"status": {"replicas": 1, "labelSelector": "a=b"}})
    scale = (await client.get(f"{ONE}/scale")).json()
    assert scale == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "one",
            "namespace": "default",
            "uid": "uid-2",
            "resourceVersion": "4",
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "a=b"},
    }
    scale["spec"]["replicas"] = 5
    scale["extra"] = 1
    answer = await client.put(f"{ONE}/scale", scale)
    assert (answer.status, answer.json()["spec"]) == (200, {"replicas": 5})
    assert answer.warnings == ['299 - "unknown field \\"extra\\""']
    assert (await client.merge(f"{ONE}/scale", {"spec": {"replicas": 6}})).json()["spec"] == {"replicas": 6}
    assert (await client.get(ONE)).json()["spec"]["replicas"] == 6


REFUSED_SCALES: dict[str, tuple[Any, int, str]] = {
    "negative": (
        {"spec": {"replicas": -1}},
        422,
        'CronTab.stable.example.com "one" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer',
    ),
    "an old version": (
        {"metadata": {"resourceVersion": "2"}},
        409,
        'Operation cannot be fulfilled on crontabs.stable.example.com "one": the object has been modified; '
        "please apply your changes to the latest version and try again",
    ),
}


@pytest.mark.parametrize("name", REFUSED_SCALES)
async def test_refused_scales(client: Client, name: str) -> None:
    patch, code, message = REFUSED_SCALES[name]
    await created(client, replicas=2)
    answer = await client.merge(f"{ONE}/scale", patch)
    assert (answer.message, answer.status) == (message, code)


@pytest.mark.parametrize("patch", [{"kind": "Other"}, {"apiVersion": "autoscaling/v2"}])
async def test_a_patch_makes_nothing_else_of_a_scale(client: Client, patch: dict[str, str]) -> None:
    await created(client, replicas=2)
    answer = await client.merge(f"{ONE}/scale", patch)
    assert answer.status == 422
    kind, version = patch.get("kind", "Scale"), patch.get("apiVersion", "autoscaling/v1")
    assert answer.message.endswith(f'no kind "{kind}" is registered for version "{version}"')


async def test_no_scale_without_replicas(client: Client) -> None:
    await created(client)
    answer = await client.get(f"{ONE}/scale")
    assert (answer.status, answer.message) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.replicas" does not exist',
    )


# --- versions ---


async def test_another_version(client: Client) -> None:
    made = await created(client, replicas=3)
    seen = await client.get(BETA)
    assert seen.json() == {**made, "apiVersion": "stable.example.com/v1beta1", "spec": {"cronSpec": "* * * * *"}}
    assert seen.warnings == ['299 - "stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab"']
    listed = (await client.get(f"/apis/{GROUP}/v1beta1/crontabs")).json()
    assert (listed["apiVersion"], listed["items"]) == ("stable.example.com/v1beta1", [seen.json()])
    answer = await client.merge(BETA, {"spec": {"cronSpec": "1 * * * *"}})
    assert answer.json()["apiVersion"] == "stable.example.com/v1beta1"
    # With the conversion strategy None, fields that a version doesn't know are lost when it is written.
    assert (await client.get(ONE)).json()["spec"] == {"cronSpec": "1 * * * *"}


async def test_create_in_another_version(client: Client) -> None:
    obj = {**crontab(), "apiVersion": f"{GROUP}/v1beta1"}
    answer = await client.post(CRONTABS_PATH.replace("/v1/", "/v1beta1/"), obj)
    assert (answer.status, answer.json()["apiVersion"]) == (201, "stable.example.com/v1beta1")
    assert (await client.get(ONE)).json()["apiVersion"] == "stable.example.com/v1"


# --- what a request leaves behind ---


LEAVING = {
    # name: (method, path, body)
    "get": ("GET", ONE, None),
    "get of what is not there": ("GET", f"{CRONTABS_PATH}/none", None),
    "list": ("GET", CRONTABS_PATH, None),
    "create": ("POST", CRONTABS_PATH, crontab("other")),
    "create of what is there": ("POST", CRONTABS_PATH, crontab()),
    "create of what is invalid": ("POST", CRONTABS_PATH, crontab("other", image=1)),
    "create of no JSON": ("POST", CRONTABS_PATH, b"{"),
    "merge patch": ("PATCH", ONE, {"spec": {"image": "busybox"}}),
    "delete": ("DELETE", ONE, None),
}


@pytest.mark.parametrize("name", LEAVING)
async def test_a_request_waits_for_no_collector(client: Client, name: str) -> None:
    """Nothing that belongs to a request refers to it in a circle: that cost each write 4 % and kept hundreds in memory."""
    await created(client)
    gc.collect()
    gc.disable()
    try:
        method, path, body = LEAVING[name]
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        await client.request(method, path, body, headers={"content-type": kind} if body else {})
        await settled()
        assert [each for each in gc.get_objects() if type(each) is Request] == []
    finally:
        gc.enable()
