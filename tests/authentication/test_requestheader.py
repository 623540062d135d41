from __future__ import annotations

from typing import Any

import pytest

from aggserver.authentication.requestheader import RequestHeaderConfig, authenticate, check_name, strip
from aggserver.authentication.user import UserInfo
from aggserver.authentication.x509 import CertificateError, Roots
from aggserver.certificates.issuing import new_ca

ROOTS = Roots.from_pem(new_ca("front-proxy", 1_800_000_000.0).cert_pem)
STANDARD = RequestHeaderConfig(ROOTS)


def config(**changes: Any) -> RequestHeaderConfig:
    return RequestHeaderConfig(ROOTS, **changes)


@pytest.mark.parametrize(
    ("settings", "headers", "user"),
    [
        pytest.param(STANDARD, [], None, id="nobody named"),
        pytest.param(STANDARD, [(b"x-remote-user", b"")], None, id="empty name"),
        pytest.param(STANDARD, [(b"x-remote-group", b"g")], None, id="a group without a user"),
        pytest.param(STANDARD, [(b"x-remote-user", b"alice")], UserInfo("alice"), id="name only"),
        pytest.param(
            STANDARD, [(b"x-remote-user", b"alice"), (b"x-remote-user", b"bob")], UserInfo("alice"), id="first line of a name"
        ),
        pytest.param(
            config(username_headers=(b"x-first", b"x-second")),
            [(b"x-second", b"bob"), (b"x-first", b"")],
            UserInfo("bob"),
            id="the first header with a value wins",
        ),
        pytest.param(
            STANDARD,
            [
                (b"x-remote-user", b"alice"),
                (b"x-remote-uid", b"42"),
                (b"x-remote-group", b"a"),
                (b"accept", b"*/*"),
                (b"x-remote-group", b""),
                (b"x-remote-group", b"b"),
            ],
            UserInfo("alice", "42", ("a", "b")),
            id="all groups but empty ones",
        ),
        pytest.param(
            config(group_headers=(b"x-g1", b"x-g2")),
            [(b"x-remote-user", b"u"), (b"x-g2", b"two"), (b"x-g1", b"one")],
            UserInfo("u", groups=("one", "two")),
            id="groups in the order of the header names",
        ),
        pytest.param(
            config(uid_headers=()), [(b"x-remote-user", b"u"), (b"x-remote-uid", b"9")], UserInfo("u"), id="no uid header set"
        ),
        pytest.param(
            STANDARD,
            [
                (b"x-remote-user", b"u"),
                (b"x-remote-extra-authentication.kubernetes.io%2fcredential-id", b"JTI=1"),
                (b"x-remote-extra-scopes", b"a"),
                (b"x-remote-extra-scopes", b"b"),
            ],
            UserInfo("u", extra={"authentication.kubernetes.io/credential-id": ("JTI=1",), "scopes": ("a", "b")}),
            id="extra keys are unescaped",
        ),
        pytest.param(
            STANDARD,
            [(b"x-remote-user", b"u"), (b"x-remote-extra-bad%zz%41", b"v")],
            UserInfo("u", extra={"bad%zz%41": ("v",)}),
            id="a malformed escape is kept whole",
        ),
        pytest.param(
            config(extra_prefixes=(b"x-b-", b"x-a-")),
            [(b"x-remote-user", b"u"), (b"x-a-k", b"1"), (b"x-b-k", b"2")],
            UserInfo("u", extra={"k": ("2", "1")}),
            id="values in the order of the prefixes",
        ),
        pytest.param(STANDARD, [(b"x-remote-user", "Ünal".encode())], UserInfo("Ünal"), id="UTF-8"),
        pytest.param(STANDARD, [(b"x-remote-user", b"\xff")], UserInfo("�"), id="what is no UTF-8"),
    ],
)
def test_authenticate(settings: RequestHeaderConfig, headers: list[tuple[bytes, bytes]], user: UserInfo | None) -> None:
    assert authenticate(headers, settings) == user


@pytest.mark.parametrize(
    ("settings", "removed"),
    [
        pytest.param(None, {b"x-remote-user", b"x-remote-uid", b"x-remote-group", b"x-remote-extra-k"}, id="no front proxy"),
        pytest.param(
            config(username_headers=(b"x-me",), uid_headers=(), group_headers=(b"x-us",), extra_prefixes=(b"x-more-",)),
            {b"x-remote-user", b"x-remote-uid", b"x-remote-group", b"x-remote-extra-k", b"x-me", b"x-us", b"x-more-k"},
            id="own names and the standard ones",
        ),
    ],
)
def test_strip(settings: RequestHeaderConfig | None, removed: set[bytes]) -> None:
    names = [
        b"accept",
        b"x-remote-user",
        b"x-remote-uid",
        b"x-remote-group",
        b"x-remote-extra-k",
        b"x-remote-users",
        b"x-me",
        b"x-us",
        b"x-more-k",
    ]
    headers = [(name, b"v") for name in names]
    kept = [name for name, _ in strip(headers, settings)]
    assert kept == [name for name in names if name not in removed]


def test_strip_leaves_ordinary_headers_as_they_are() -> None:
    headers = [(b"accept", b"*/*")]
    assert strip(headers, STANDARD) is headers


@pytest.mark.parametrize(
    ("allowed", "name", "ok"),
    [
        pytest.param((), "anyone", True, id="no list"),
        pytest.param(("front-proxy-client", "other"), "other", True, id="listed"),
        pytest.param(("front-proxy-client",), "intruder", False, id="not listed"),
        pytest.param(("front-proxy-client",), "", False, id="no common name"),
    ],
)
def test_check_name(allowed: tuple[str, ...], name: str, ok: bool) -> None:
    settings = config(allowed_names=allowed)
    if ok:
        check_name(name, settings)
    else:
        with pytest.raises(CertificateError, match=f"^x509: subject with cn={name} is not in the allowed list$"):
            check_name(name, settings)


class TestFromConfigMap:
    def test_kubeadm(self) -> None:
        data = {
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        }
        assert RequestHeaderConfig.from_configmap(data, ROOTS) == config(allowed_names=("front-proxy-client",))

    def test_missing_lists_are_empty(self) -> None:
        found = RequestHeaderConfig.from_configmap({"requestheader-allowed-names": "null"}, ROOTS)
        assert (found.allowed_names, found.username_headers, found.uid_headers) == ((), (), ())
        assert authenticate([(b"x-remote-user", b"u")], found) is None

    def test_an_empty_prefix_does_not_make_everything_an_identity(self) -> None:
        found = RequestHeaderConfig.from_configmap({"requestheader-extra-headers-prefix": '["", " X-E- "]'}, ROOTS)
        assert found.extra_prefixes == (b"x-e-",)

    @pytest.mark.parametrize("text", ["{", '{"a":1}', "[1]", '"x"'])
    def test_rubbish(self, text: str) -> None:
        with pytest.raises(ValueError, match="requestheader-group-headers is not a JSON list of strings"):
            RequestHeaderConfig.from_configmap({"requestheader-group-headers": text}, ROOTS)


def test_from_flags() -> None:
    names: tuple[list[str], ...] = (["front-proxy-client"], ["X-Remote-User"], [], ["X-Remote-Group"], ["X-Remote-Extra-"])
    assert RequestHeaderConfig.from_flags(ROOTS, *names) == config(allowed_names=("front-proxy-client",), uid_headers=())
    with pytest.raises(ValueError, match='empty header " "'):
        RequestHeaderConfig.from_flags(ROOTS, [], [" "], [], [], [])


# --- users that are kept ---


def test_a_user_is_made_once() -> None:
    settings = config()
    headers = [(b"x-remote-user", b"u"), (b"x-remote-group", b"g"), (b"x-remote-extra-a", b"1")]
    first = authenticate(list(headers), settings)
    assert first == UserInfo("u", "", ("g",), {"a": ("1",)})
    assert authenticate(list(headers), settings) is first
    for changed in (headers[:1], headers[:2], headers[1:], [*headers, (b"x-remote-group", b"h")], headers[::-1][:2]):
        assert authenticate(changed, settings) != first
    assert authenticate(headers, config()) is not first, "other settings may read the headers in another way"


def test_few_users_are_kept() -> None:
    settings = config()
    for number in range(1500):
        authenticate([(b"x-remote-user", b"u%d" % number)], settings)
        authenticate([(b"x-remote-user", b"v"), (b"x-remote-extra-a", b"%d" % number * 2000)], settings)
    assert 0 < len(settings.known) <= 1024
    assert sum(len(value) for headers in settings.known for _, value in headers) < 10_000
