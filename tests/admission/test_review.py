"""AdmissionReviews, with the cases of upstream's tests under their names.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview_test.go, .../errors/statuserror_test.go, v0.36.3.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from aggserver.admission import review
from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes, Target
from aggserver.admission.review import Answer, InvalidAnswer, UnreadableAnswer
from aggserver.authentication.user import UserInfo
from aggserver.meta.errors import Cause
from aggserver.meta.resource import ResourceInfo

V1 = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
V1BETA1 = {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}
PATCH = base64.b64encode(b"[{}]").decode()
RESULT = {"code": 123}


def response(**members: Any) -> dict[str, Any]:
    return {"response": {"uid": "123", "allowed": True, **members}}


# name: (version, whether it mutates, the answer, what is made of it, or the text of the error).
ANSWERS: dict[str, tuple[str, bool, Any, Answer | str]] = {
    "v1beta1 allowed validating": ("v1beta1", False, {"response": {"allowed": True}}, Answer(True)),
    "v1 allowed validating": ("v1", False, {**V1, **response()}, Answer(True)),
    "v1beta1 allowed mutating": ("v1beta1", True, {"response": {"allowed": True}}, Answer(True)),
    "v1 allowed mutating": ("v1", True, {**V1, **response()}, Answer(True)),
    "v1beta1 auditAnnotations": (
        "v1beta1",
        False,
        {"response": {"allowed": True, "auditAnnotations": {"foo": "bar"}}},
        Answer(True, audit_annotations={"foo": "bar"}),
    ),
    "v1 auditAnnotations": (
        "v1",
        False,
        {**V1, **response(auditAnnotations={"foo": "bar"})},
        Answer(True, audit_annotations={"foo": "bar"}),
    ),
    "v1beta1 patch": ("v1beta1", True, {"response": {"allowed": True, "patch": PATCH}}, Answer(True, b"[{}]", "JSONPatch")),
    "v1 patch": ("v1", True, {**V1, **response(patch=PATCH, patchType="JSONPatch")}, Answer(True, b"[{}]", "JSONPatch")),
    "v1beta1 result": ("v1beta1", False, {"response": {"allowed": False, "status": RESULT}}, Answer(False, result=RESULT)),
    "v1 result": ("v1", False, {**V1, **response(allowed=False, status=RESULT)}, Answer(False, result=RESULT)),
    "v1beta1 no response": ("v1beta1", False, {}, "webhook response was absent"),
    "v1 no response": ("v1", False, V1, "webhook response was absent"),
    "v1 wrong group": (
        "v1",
        True,
        {**V1, "apiVersion": "admission.k8s.io2/v1", **response()},
        'no kind "AdmissionReview" is registered for version "admission.k8s.io2/v1" in scheme "pkg/runtime/scheme.go:111"',
    ),
    "v1 wrong version": (
        "v1",
        True,
        {**V1, "apiVersion": "admission.k8s.io/v2", **response()},
        'no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" in scheme "pkg/runtime/scheme.go:111"',
    ),
    "v1 wrong kind": (
        "v1",
        True,
        {**V1, "kind": "AdmissionReview2", **response()},
        'no kind "AdmissionReview2" is registered for version "admission.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"',
    ),
    "v1 without kind": (
        "v1",
        True,
        response(),
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
    ),
    "v1 wrong uid": ("v1", True, {**V1, **response(uid="1234")}, 'expected response.uid="123", got "1234"'),
    "v1 patch without patch type": (
        "v1",
        True,
        {**V1, **response(patch=PATCH)},
        "webhook returned response.patch but not response.patchType",
    ),
    "v1 patch type without patch": (
        "v1",
        True,
        {**V1, **response(patchType="JSONPatch")},
        "webhook returned response.patchType but not response.patch",
    ),
    "v1 empty patch type": (
        "v1",
        True,
        {**V1, **response(patch=PATCH, patchType="")},
        'webhook returned invalid response.patchType of ""',
    ),
    # Refused when the patch is to be applied.
    "v1 invalid patch type": ("v1", True, {**V1, **response(patch=PATCH, patchType="Foo")}, Answer(True, b"[{}]", "Foo")),
    "v1 patch for validating webhook": (
        "v1",
        False,
        {**V1, **response(patch=PATCH)},
        "validating webhook may not return response.patch",
    ),
    "v1 patch type for validating webhook": (
        "v1",
        False,
        {**V1, **response(patchType="JSONPatch")},
        "validating webhook may not return response.patchType",
    ),
    "v1beta1 wrong uid": ("v1beta1", True, {"response": {"uid": "1234", "allowed": True}}, Answer(True)),
    "v1beta1 validating returns patch/patchType": (
        "v1beta1",
        False,
        {"response": {"allowed": True, "patch": PATCH, "patchType": "JSONPatch"}},
        Answer(True),
    ),
    "v1beta1 empty patch type": (
        "v1beta1",
        True,
        {"response": {"allowed": True, "patch": PATCH, "patchType": ""}},
        Answer(True, b"[{}]", "JSONPatch"),
    ),
    "v1beta1 invalid patchType": (
        "v1beta1",
        True,
        {"response": {"allowed": True, "patch": PATCH, "patchType": "Foo"}},
        Answer(True, b"[{}]", "JSONPatch"),
    ),
    "v1beta1 answers v1": (
        "v1",
        True,
        {**V1BETA1, **response()},
        "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    "nothing allowed": ("v1", True, {**V1, "response": {"uid": "123"}}, Answer(False)),
    "nulls": (
        "v1",
        True,
        {**V1, **response(warnings=[None, "careful"], auditAnnotations={"a": None}, patch=None, patchType=None, status=None)},
        Answer(True, warnings=("", "careful"), audit_annotations={"a": ""}),
    ),
    "a wrong type": (
        "v1",
        True,
        {**V1, **response(allowed="yes")},
        "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
    ),
    "bad base64": ("v1", True, {**V1, **response(patch="ab%d", patchType="JSONPatch")}, "illegal base64 data at input byte 2"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answer(case: str) -> None:
    version, mutating, given, wanted = ANSWERS[case]
    body = json.dumps(given).encode()
    if isinstance(wanted, Answer):
        assert review.read(body, version, "123", mutating=mutating) == wanted
        return
    with pytest.raises((InvalidAnswer, UnreadableAnswer)) as raised:
        review.read(body, version, "123", mutating=mutating)
    assert str(raised.value) == wanted


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"[]", "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct"),
        (b"hello", "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct"),
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (
            b'{"kind":1}',
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of",
        ),
        (b'{"kind":"Status","apiVersion":"v1"}', "converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
    ],
)
def test_no_review(body: bytes, text: str) -> None:
    with pytest.raises(UnreadableAnswer) as raised:
        review.read(body, "v1", "123", mutating=True)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize(
    ("known", "version"), [(["v1"], "v1"), (["v1beta1"], "v1beta1"), (["v1beta1", "v1"], "v1beta1"), (["v7", "v1"], "v1")]
)
def test_version(known: list[str], version: str) -> None:
    assert review.version_of(known) == version


@pytest.mark.parametrize(
    "known", [pytest.param([], id="no supported versions"), pytest.param(["v3", "v4"], id="no known supported versions")]
)
def test_no_version(known: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^webhook does not accept known AdmissionReview versions \(v1, v1beta1\)$"):
        review.version_of(known)


# --- what is asked ---

INFO = ResourceInfo("g", "v2", "crontabs", "CronTab", "CronTabList", namespaced=True)
USER = UserInfo("myuser", "myuid", ("mygroup",), {"extrakey": ("value1", "value2")})
TARGET = Target("g", "v1", "crontabs", "g/v1", "CronTab")


def attributes(operation: str = CREATE, **more: Any) -> Attributes:
    given: dict[str, Any] = {"namespace": "ns", "name": "a", "dry_run": False, "subresource": "", **more}
    return Attributes(operation, USER, INFO, kind="CronTab", object_version="g/v2", **given)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_body(version: str) -> None:
    obj = review.encoded({"metadata": {"name": "a"}}, TARGET)
    old = review.encoded(None, TARGET)
    asked = json.loads(review.body(version, "u-1", attributes(options={"fieldManager": "me", "force": True}), TARGET, obj, old))
    assert asked == {
        "kind": "AdmissionReview",
        "apiVersion": f"admission.k8s.io/{version}",
        "request": {
            "uid": "u-1",
            "kind": {"group": "g", "version": "v1", "kind": "CronTab"},
            "resource": {"group": "g", "version": "v1", "resource": "crontabs"},
            "requestKind": {"group": "g", "version": "v2", "kind": "CronTab"},
            "requestResource": {"group": "g", "version": "v2", "resource": "crontabs"},
            "name": "a",
            "namespace": "ns",
            "operation": "CREATE",
            "userInfo": {
                "username": "myuser",
                "uid": "myuid",
                "groups": ["mygroup"],
                "extra": {"extrakey": ["value1", "value2"]},
            },
            "object": {"apiVersion": "g/v1", "kind": "CronTab", "metadata": {"name": "a"}},
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "me"},
        },
    }


def asked(given: Attributes) -> Any:
    return json.loads(review.body("v1", "u-1", given, Target.requested(given), b"null", b"null"))["request"]


def test_what_is_left_out() -> None:
    found = asked(attributes(namespace="", name=""))
    assert not {"namespace", "name", "subResource", "requestSubResource"} & set(found)
    bare = Attributes(CREATE, UserInfo("a"), INFO, "", "CronTab", "g/v2", "", "", dry_run=True)
    assert asked(bare)["userInfo"] == {"username": "a"}
    assert asked(bare)["dryRun"] is True


def test_subresource() -> None:
    found = asked(attributes(UPDATE, subresource="status"))
    assert (found["subResource"], found["requestSubResource"]) == ("status", "status")


@pytest.mark.parametrize(
    ("operation", "given", "wanted"),
    [
        (
            UPDATE,
            {"fieldValidation": "Strict", "dryRun": ["All"]},
            {"kind": "UpdateOptions", "fieldValidation": "Strict", "dryRun": ["All"]},
        ),
        (
            DELETE,
            {"gracePeriodSeconds": 0, "unheard": 1, "preconditions": None},
            {"kind": "DeleteOptions", "gracePeriodSeconds": 0},
        ),
        (
            DELETE,
            {"kind": "x", "apiVersion": "v1", "orphanDependents": False},
            {"kind": "DeleteOptions", "orphanDependents": False},
        ),
    ],
)
def test_options(operation: str, given: Any, wanted: Any) -> None:
    assert asked(attributes(operation, options=given))["options"] == {"apiVersion": "meta.k8s.io/v1", **wanted}


# --- refusals ---


@pytest.mark.parametrize(
    ("result", "code", "reason", "message"),
    [
        pytest.param(None, 400, "", 'admission webhook "hook" denied the request without explanation', id="nil result"),
        pytest.param({"message": "yes"}, 400, "", 'admission webhook "hook" denied the request: yes', id="only message"),
        pytest.param(
            {"reason": "Forbidden"}, 400, "Forbidden", 'admission webhook "hook" denied the request: Forbidden', id="only reason"
        ),
        pytest.param(
            {"message": "no", "reason": "Why"}, 400, "Why", 'admission webhook "hook" denied the request: no', id="both"
        ),
        pytest.param(
            {"status": "Success", "code": 200},
            400,
            "",
            'admission webhook "hook" denied the request without explanation',
            id="success",
        ),
        pytest.param({"code": 403}, 403, "", 'admission webhook "hook" denied the request without explanation', id="code"),
    ],
)
def test_denial(result: Any, code: int, reason: str, message: str) -> None:
    error = review.denial("hook", result)
    assert (error.code, error.reason, error.message) == (code, reason, message)
    assert error.status()["status"] == "Failure"


def test_details_of_a_denial() -> None:
    details = {
        "name": "n",
        "group": "g",
        "kind": "k",
        "causes": [{"reason": "r", "message": "m", "field": "f"}, {}],
        "retryAfterSeconds": 5,
    }
    error = review.denial("hook", {"details": details})
    assert (error.name, error.group, error.kind, error.retry_after) == ("n", "g", "k", 5)
    assert error.causes == (Cause("r", "m", "f"), Cause("", ""))
    assert review.denial("hook", {"details": {}}).status()["details"] == {}
