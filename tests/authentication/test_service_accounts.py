"""Claims of ServiceAccounts' tokens: what is issued, what is read, and each upstream reason to refuse one."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from aggserver.authentication.service_accounts import (
    Claims,
    InvalidToken,
    Name,
    Ref,
    check_objects,
    check_times,
    common_audiences,
    issued,
    issued_in_secret,
    read_claims,
)
from aggserver.meta.times import format_time

NOW = 1_800_000_000.0
BOB, POD, SECRET, NODE = Ref("bob", "u1"), Ref("p", "u2"), Ref("s", "u3"), Ref("n", "u4")


def new(bound: dict[str, Ref] | None = None, **more: Any) -> dict[str, Any]:
    wanted = {"now": NOW + 0.7, "seconds": 3600, "warn_after": 0, "token_id": "id"} | more
    return issued("https://issuer", "ns", BOB, bound or {}, ["a", "b"], **wanted)


def test_issued() -> None:
    assert list(new()) == ["aud", "exp", "iat", "iss", "jti", "kubernetes.io", "nbf", "sub"]
    assert new({"pod": POD, "node": NODE}, warn_after=3607) == {
        "aud": ["a", "b"],
        "exp": NOW + 3600,
        "iat": NOW,
        "iss": "https://issuer",
        "jti": "id",
        "kubernetes.io": {
            "namespace": "ns",
            "node": {"name": "n", "uid": "u4"},
            "pod": {"name": "p", "uid": "u2"},
            "serviceaccount": {"name": "bob", "uid": "u1"},
            "warnafter": NOW + 3607,
        },
        "nbf": NOW,
        "sub": "system:serviceaccount:ns:bob",
    }
    assert new({"node": Ref("n", "")})["kubernetes.io"]["node"] == {"name": "n"}


PREFIX = "authentication.kubernetes.io/"
USERS = {
    "unbound": ({}, {}, [Name("serviceaccounts", "ns", "bob")]),
    "pod": (
        {"pod": POD},
        {"pod-name": ("p",), "pod-uid": ("u2",)},
        [Name("serviceaccounts", "ns", "bob"), Name("pods", "ns", "p")],
    ),
    "pod on a node": (
        {"pod": POD, "node": NODE},
        {"pod-name": ("p",), "pod-uid": ("u2",), "node-name": ("n",), "node-uid": ("u4",)},
        [Name("serviceaccounts", "ns", "bob"), Name("pods", "ns", "p")],
    ),
    "node": (
        {"node": NODE},
        {"node-name": ("n",), "node-uid": ("u4",)},
        [Name("serviceaccounts", "ns", "bob"), Name("nodes", "", "n")],
    ),
    "a node that is gone": ({"node": Ref("n", "")}, {"node-name": ("n",)}, None),
    "secret": ({"secret": SECRET}, {}, [Name("serviceaccounts", "ns", "bob"), Name("secrets", "ns", "s")]),
}


@pytest.mark.parametrize(("bound", "extra", "objects"), USERS.values(), ids=USERS)
def test_read_again(bound: dict[str, Ref], extra: dict[str, tuple[str, ...]], objects: list[Name] | None) -> None:
    claims = read_claims(new(bound))
    user = claims.user()
    assert (user.name, user.uid) == ("system:serviceaccount:ns:bob", "u1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns")
    assert user.extra == {f"{PREFIX}{key}": value for key, value in {"credential-id": ("JTI=id",), **extra}.items()}
    assert claims.audiences == ("a", "b")
    assert objects is None or claims.objects() == objects


def test_read_of_a_secret() -> None:
    claims = read_claims(issued_in_secret("ns", BOB, "s"))
    assert claims == Claims("ns", BOB, secret_name="s")
    assert claims.objects() == [Name("serviceaccounts", "ns", "bob"), Name("secrets", "ns", "s")]
    assert claims.user().extra == {}


OF_SECRETS = "kubernetes.io/serviceaccount/"
UNEXPECTED = "service account token claims could not be validated due to unexpected validation error"
UNREADABLE = {
    "no subject": (issued_in_secret("ns", BOB, "s") | {"sub": ""}, "sub claim is missing"),
    "another subject": (issued_in_secret("ns", BOB, "s") | {"sub": "system:serviceaccount:ns:eve"}, "sub claim is invalid"),
    "no namespace": (issued_in_secret("ns", BOB, "s") | {f"{OF_SECRETS}namespace": ""}, "namespace claim is missing"),
    "no secret": (issued_in_secret("ns", BOB, "s") | {f"{OF_SECRETS}secret.name": ""}, "secretName claim is missing"),
    "no name": (
        issued_in_secret("ns", BOB, "s") | {f"{OF_SECRETS}service-account.name": ""},
        "serviceAccountName claim is missing",
    ),
    "no uid": (
        issued_in_secret("ns", BOB, "s") | {f"{OF_SECRETS}service-account.uid": ""},
        "serviceAccountUID claim is missing",
    ),
    "an end that is text": (new() | {"exp": "never"}, UNEXPECTED),
    "an end that is true": (new() | {"exp": True}, UNEXPECTED),
    "audiences that are numbers": (new() | {"aud": [1]}, UNEXPECTED),
    "private claims that are text": (new() | {"kubernetes.io": "x"}, UNEXPECTED),
    "an account that is text": (new() | {"kubernetes.io": {"serviceaccount": "x"}}, UNEXPECTED),
}


@pytest.mark.parametrize(("claims", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        read_claims(claims)
    assert str(caught.value) == why


TIMES = {
    # seconds after the token was made, of one for an hour: why it is refused
    "at once": (0, ""),
    "by a clock behind": (-60, ""),
    "by a clock far behind": (-61, "service account token is not valid yet"),
    "at its end": (3600, ""),
    "soon after": (3660, ""),
    "later": (3661, "service account token has expired"),
}


@pytest.mark.parametrize(("after", "why"), TIMES.values(), ids=TIMES)
def test_times(after: float, why: str) -> None:
    assert _refusal(lambda: check_times(read_claims(new()), NOW + after)) == why


def test_issued_in_the_future() -> None:
    claims = read_claims(new() | {"nbf": NOW - 100})
    assert _refusal(lambda: check_times(claims, NOW - 61)) == "service account token is issued in the future"


AUDIENCES = {
    # (of the token, of the server, wanted): what is common, or why none is
    "its own": (["a"], ["a", "b"], ["a", "b"], ("a",)),
    "another": (["a", "c"], ["a"], ["c"], ("c",)),
    "none named": ([], ["a", "b"], ["b"], ("b",)),
    "none of those": (["x", "y"], ["a"], ["a"], 'token audiences ["x" "y"] is invalid for the target audiences ["a"]'),
    "a server without": (["x"], [], [], ()),
}


@pytest.mark.parametrize(("of_token", "of_server", "wanted", "common"), AUDIENCES.values(), ids=AUDIENCES)
def test_audiences(of_token: list[str], of_server: list[str], wanted: list[str], common: tuple[str, ...] | str) -> None:
    if isinstance(common, tuple):
        assert common_audiences(of_token, of_server, wanted) == common
    else:
        assert _refusal(lambda: common_audiences(of_token, of_server, wanted)) == common


def obj(uid: str, deleted: float | None = None, **more: Any) -> dict[str, Any]:
    """deleted: seconds before now."""
    metadata = {"uid": uid} | ({} if deleted is None else {"deletionTimestamp": format_time(NOW - deleted)})
    return {"metadata": metadata | more.pop("metadata", {}), **more}


LEGACY = issued_in_secret("ns", BOB, "s")
TEXT = "the.token.itself"
KEPT = {"data": {"token": base64.b64encode(TEXT.encode()).decode()}}
INVALIDATED = "service account token has been invalidated"
SINCE = "kubernetes.io/legacy-token-invalid-since"
MARKED = (
    "the token in secret ns/s for service account ns/bob has been marked invalid. Use tokens from the TokenRequest API or "
    f"manually created secret-based tokens, or remove the '{SINCE}' label from the secret to temporarily allow use of this token"
)
OBJECTS: dict[str, tuple[dict[str, Any], list[dict[str, Any] | None], str]] = {
    # (claims, the objects in the order of Claims.objects): why the token is refused
    "there": (new(), [obj("u1")], ""),
    "no account": (new(), [None], 'serviceaccounts "bob" not found'),
    "another account": (new(), [obj("u9")], "service account UID (u9) does not match claim (u1)"),
    "account just deleted": (new(), [obj("u1", 60)], ""),
    "account deleted": (new(), [obj("u1", 61)], "service account ns/bob has been deleted"),
    "pod": (new({"pod": POD}), [obj("u1"), obj("u2")], ""),
    "no pod": (new({"pod": POD}), [obj("u1"), None], INVALIDATED),
    "another pod": (
        new({"pod": POD}),
        [obj("u1"), obj("u9")],
        "pod UID (u9) does not match service account pod ref claim (u2)",
    ),
    "pod deleted": (new({"pod": POD}), [obj("u1"), obj("u2", 61)], INVALIDATED),
    "its node is not asked for": (new({"pod": POD, "node": NODE}), [obj("u1"), obj("u2")], ""),
    "no secret": (new({"secret": SECRET}), [obj("u1"), None], INVALIDATED),
    "another secret": (
        new({"secret": SECRET}),
        [obj("u1"), obj("u9")],
        "secret UID (u9) does not match service account secret ref claim (u3)",
    ),
    "secret deleted": (new({"secret": SECRET}), [obj("u1"), obj("u3", 61)], INVALIDATED),
    "node": (new({"node": NODE}), [obj("u1"), obj("u4")], ""),
    "another node": (
        new({"node": NODE}),
        [obj("u1"), obj("u9")],
        "node UID (u9) does not match service account node ref claim (u4)",
    ),
    "node deleted": (new({"node": NODE}), [obj("u1"), obj("u4", 61)], INVALIDATED),
    "in a secret": (LEGACY, [obj("u1"), obj("u3", **KEPT)], ""),
    "its secret is gone": (LEGACY, [obj("u1"), None], "Token has been invalidated"),
    "its secret is being deleted": (LEGACY, [obj("u1"), obj("u3", 0, **KEPT)], "Token has been invalidated"),
    "another one in its secret": (LEGACY, [obj("u1"), obj("u3", data={"token": "YQ=="})], "Token does not match server's copy"),
    "no data in its secret": (LEGACY, [obj("u1"), obj("u3")], "Token does not match server's copy"),
    "data that is no base64": (LEGACY, [obj("u1"), obj("u3", data={"token": "!"})], "Token does not match server's copy"),
    "in a secret of no account": (LEGACY, [None, obj("u3", **KEPT)], 'serviceaccounts "bob" not found'),
    "in a secret of another account": (
        LEGACY,
        [obj("u9"), obj("u3", **KEPT)],
        "ServiceAccount UID (u9) does not match claim (u1)",
    ),
    "in a secret, account being deleted": (LEGACY, [obj("u1", 0), obj("u3", **KEPT)], "ServiceAccount ns/bob has been deleted"),
    "marked": (LEGACY, [obj("u1"), obj("u3", **KEPT, metadata={"labels": {SINCE: "2024-01-01"}})], MARKED),
}


@pytest.mark.parametrize(("claims", "found", "why"), OBJECTS.values(), ids=OBJECTS)
def test_objects(claims: dict[str, Any], found: list[dict[str, Any] | None], why: str) -> None:
    read = read_claims(claims)
    objects = dict(zip(read.objects(), found, strict=True))
    assert _refusal(lambda: check_objects(read, TEXT, objects, NOW)) == why


def _refusal(check: Any) -> str:
    try:
        check()
    except InvalidToken as error:
        return str(error)
    return ""
