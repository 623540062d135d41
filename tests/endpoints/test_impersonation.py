from __future__ import annotations

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import Decision
from aggserver.endpoints.impersonation import impersonate
from aggserver.meta import errors

JANE = UserInfo("jane", groups=("dev",))
Headers = list[tuple[bytes, bytes]]


class FakeAuthorizer:
    """Allows everything except `denied` (resource, or resource/subresource/name), and records the attributes of each call."""

    def __init__(self, denied: set[str] | None = None) -> None:
        self.denied = denied or set()
        self.asked: list[Attributes] = []

    async def authorize(self, attributes: Attributes) -> Decision:
        self.asked.append(attributes)
        if "outage" in self.denied:
            raise errors.internal_error("nobody there")
        parts = (attributes.resource, attributes.subresource, attributes.name)
        return Decision(not self.denied & {attributes.resource, "/".join(parts)}, "says the test")


def asked(attributes: Attributes) -> str:
    return "/".join((attributes.group, attributes.resource, attributes.subresource, attributes.namespace, attributes.name))


@pytest.mark.parametrize(
    ("headers", "user", "questions"),
    [
        pytest.param(
            [(b"impersonate-user", b"bob")],
            UserInfo("bob", groups=("system:authenticated",)),
            ["/users///bob"],
            id="a user",
        ),
        pytest.param(
            [(b"impersonate-user", b"bob"), (b"impersonate-group", b"a"), (b"impersonate-group", b"b")],
            UserInfo("bob", groups=("a", "b", "system:authenticated")),
            ["/users///bob", "/groups///a", "/groups///b"],
            id="groups",
        ),
        pytest.param(
            [(b"impersonate-user", b"bob"), (b"impersonate-group", b"system:unauthenticated")],
            UserInfo("bob", groups=("system:unauthenticated",)),
            ["/users///bob", "/groups///system:unauthenticated"],
            id="unauthenticated stays so",
        ),
        pytest.param(
            [(b"impersonate-user", b"bob"), (b"impersonate-group", b"system:authenticated")],
            UserInfo("bob", groups=("system:authenticated",)),
            ["/users///bob", "/groups///system:authenticated"],
            id="authenticated once",
        ),
        pytest.param(
            [(b"impersonate-user", b"system:anonymous")],
            UserInfo("system:anonymous", groups=("system:unauthenticated",)),
            ["/users///system:anonymous"],
            id="anonymous",
        ),
        pytest.param(
            [(b"impersonate-user", b"system:serviceaccount:ns:sa")],
            UserInfo(
                "system:serviceaccount:ns:sa",
                groups=("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            ),
            ["/serviceaccounts//ns/sa"],
            id="service account",
        ),
        pytest.param(
            [(b"impersonate-user", b"system:serviceaccount:ns:sa"), (b"impersonate-group", b"g")],
            UserInfo("system:serviceaccount:ns:sa", groups=("g", "system:authenticated")),
            ["/serviceaccounts//ns/sa", "/groups///g"],
            id="service account with other groups",
        ),
        pytest.param(
            [(b"impersonate-user", b"system:serviceaccount:NS:sa")],
            UserInfo("system:serviceaccount:NS:sa", groups=("system:authenticated",)),
            ["/users///system:serviceaccount:NS:sa"],
            id="looks like a service account",
        ),
        pytest.param(
            [
                (b"impersonate-extra-scopes", b"a"),
                (b"impersonate-uid", b"7"),
                (b"impersonate-user", b"bob"),
                (b"impersonate-extra-acme.com%2fproject", b"p"),
                (b"impersonate-extra-scopes", b"b"),
            ],
            UserInfo("bob", "7", ("system:authenticated",), {"scopes": ("a", "b"), "acme.com/project": ("p",)}),
            [
                "/users///bob",
                "authentication.k8s.io/uids///7",
                "authentication.k8s.io/userextras/scopes//a",
                "authentication.k8s.io/userextras/scopes//b",
                "authentication.k8s.io/userextras/acme.com/project//p",
            ],
            id="uid and extra",
        ),
    ],
)
async def test_allowed(headers: Headers, user: UserInfo, questions: list[str]) -> None:
    authorizer = FakeAuthorizer()
    found, rest = await impersonate([(b"accept", b"*/*"), *headers], JANE, authorizer)
    assert found == user
    assert rest == [(b"accept", b"*/*")]
    assert [asked(attributes) for attributes in authorizer.asked] == questions
    assert {(attributes.user.name, attributes.verb, attributes.version) for attributes in authorizer.asked} == {
        ("jane", "impersonate", "v1")
    }


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([(b"accept", b"*/*")], id="no headers"),
        pytest.param([(b"impersonate-user", b"")], id="empty user"),
        pytest.param([(b"impersonate-nothing", b"x")], id="another header"),
    ],
)
async def test_not_asked_for(headers: Headers) -> None:
    authorizer = FakeAuthorizer()
    assert await impersonate(headers, JANE, authorizer) == (JANE, headers)
    assert authorizer.asked == []


@pytest.mark.parametrize(
    ("denied", "message"),
    [
        pytest.param(
            "users",
            'users "bob" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope: '
            "says the test",
            id="user",
        ),
        pytest.param(
            "groups//b",
            'groups "b" is forbidden: User "jane" cannot impersonate resource "groups" in API group "" at the cluster scope: '
            "says the test",
            id="one of the groups",
        ),
        pytest.param(
            "userextras/k/v",
            'userextras.authentication.k8s.io "v" is forbidden: User "jane" cannot impersonate resource "userextras/k" in API '
            'group "authentication.k8s.io" at the cluster scope: says the test',
            id="an extra value",
        ),
        pytest.param(
            "outage",
            'users "bob" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope: '
            "Internal error occurred: nobody there",
            id="no answer is a no",
        ),
    ],
)
async def test_denied(denied: str, message: str) -> None:
    headers = [
        (b"impersonate-user", b"bob"),
        (b"impersonate-group", b"a"),
        (b"impersonate-group", b"b"),
        (b"impersonate-extra-k", b"v"),
    ]
    with pytest.raises(errors.StatusError) as caught:
        await impersonate(headers, JANE, FakeAuthorizer({denied}))
    assert (caught.value.code, caught.value.message) == (403, message)


@pytest.mark.parametrize(
    ("header", "what"),
    [
        pytest.param((b"impersonate-group", b"a"), 'group "a"', id="group"),
        pytest.param((b"impersonate-uid", b"1"), 'uid "1"', id="uid"),
        pytest.param((b"impersonate-extra-k", b"v"), 'extra "k"', id="extra"),
    ],
)
async def test_parts_without_a_user(header: tuple[bytes, bytes], what: str) -> None:
    with pytest.raises(errors.StatusError) as caught:
        await impersonate([header], JANE, FakeAuthorizer())
    assert (caught.value.code, caught.value.message) == (400, f"requested {what} without impersonating a user name")
