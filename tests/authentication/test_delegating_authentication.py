from __future__ import annotations

import base64
import ssl
from typing import Any

import pytest

from aggserver.authentication.delegating import AuthenticationConfig, Authenticator, ClientCA
from aggserver.authentication.requestheader import RequestHeaderConfig
from aggserver.authentication.tokens import TokenReviewer
from aggserver.authentication.user import ANONYMOUS
from aggserver.authentication.x509 import PeerCertificate, Roots
from aggserver.certificates.issuing import issue_client, issue_serving, new_ca
from aggserver.meta.errors import StatusError
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster

NOW = 1_800_000_000.0
CLIENT_CA, PROXY_CA, STRANGER = (new_ca(name, NOW) for name in ("client-ca", "proxy-ca", "stranger"))


def peer(pair: Any) -> PeerCertificate:
    return PeerCertificate(ssl.PEM_cert_to_DER_cert(pair.cert_pem.decode()))


PEERS: dict[str, PeerCertificate | None] = {
    "nothing": None,
    "alice": peer(issue_client(CLIENT_CA, "alice", ["dev"], NOW)),
    "proxy": peer(issue_client(PROXY_CA, "front-proxy-client", [], NOW)),
    "false proxy": peer(issue_client(PROXY_CA, "intruder", [], NOW)),
    "proxy of a stranger": peer(issue_client(STRANGER, "front-proxy-client", [], NOW)),
    "server": peer(issue_serving(CLIENT_CA, ["alice"], [], NOW)),
}

CONFIG = AuthenticationConfig(
    ClientCA(CLIENT_CA.cert_pem, Roots.from_pem(CLIENT_CA.cert_pem)),
    RequestHeaderConfig(Roots.from_pem(PROXY_CA.cert_pem), allowed_names=("front-proxy-client",)),
    PROXY_CA.cert_pem,
)
CLIENT_CA_ONLY = AuthenticationConfig(client_ca=CONFIG.client_ca)

BOB = [(b"x-remote-user", b"bob"), (b"x-remote-group", b"ops")]
GOOD, BAD = [(b"authorization", b"Bearer good")], [(b"authorization", b"Bearer bad")]
SOCKET = [
    (b"connection", b"Upgrade"),
    (b"upgrade", b"websocket"),
    (
        b"sec-websocket-protocol",
        b"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(b"good!!"),
    ),
]


def reviewer() -> TokenReviewer:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        known = body["spec"]["token"] in ("good", "good!!")
        return {"status": {"authenticated": known, "user": {"username": "carol", "groups": ["tokens"]}} if known else {}}

    cluster, clock = FakeCluster(), FakeClock()
    cluster.on("POST", "/apis/authentication.k8s.io/v1/tokenreviews", answer)
    return TokenReviewer(cluster, clock=clock, sleep=clock.sleep, random=lambda: 0.0)


@pytest.mark.parametrize(
    ("config", "sender", "headers", "user", "groups"),
    [
        pytest.param(CONFIG, "nothing", [], "system:anonymous", ("system:unauthenticated",), id="nobody"),
        pytest.param(CONFIG, "nothing", BOB, "system:anonymous", ("system:unauthenticated",), id="headers without a proxy"),
        pytest.param(CONFIG, "proxy", BOB, "bob", ("ops", "system:authenticated"), id="through the proxy"),
        pytest.param(CONFIG, "proxy", [*BOB, *BAD], "bob", ("ops", "system:authenticated"), id="the proxy comes first"),
        pytest.param(CONFIG, "alice", [], "alice", ("dev", "system:authenticated"), id="client certificate"),
        pytest.param(CONFIG, "alice", BOB, "alice", ("dev", "system:authenticated"), id="a client is no proxy"),
        pytest.param(CONFIG, "alice", BAD, "alice", ("dev", "system:authenticated"), id="a certificate spares the token"),
        pytest.param(CONFIG, "nothing", GOOD, "carol", ("tokens", "system:authenticated"), id="token"),
        pytest.param(CONFIG, "nothing", SOCKET, "carol", ("tokens", "system:authenticated"), id="token of a websocket"),
        pytest.param(CONFIG, "nothing", [*BAD, *SOCKET], "carol", ("tokens", "system:authenticated"), id="one of two tokens"),
        pytest.param(
            CONFIG, "false proxy", GOOD, "carol", ("tokens", "system:authenticated"), id="a token despite the certificate"
        ),
        pytest.param(CLIENT_CA_ONLY, "alice", BOB, "alice", ("dev", "system:authenticated"), id="standalone"),
        pytest.param(AuthenticationConfig(), "alice", [], "system:anonymous", ("system:unauthenticated",), id="nothing trusted"),
    ],
)
async def test_who(
    config: AuthenticationConfig, sender: str, headers: list[tuple[bytes, bytes]], user: str, groups: tuple[str, ...]
) -> None:
    outcome = await Authenticator(config, tokens=reviewer()).authenticate([(b"accept", b"*/*"), *headers], PEERS[sender], NOW)
    assert (outcome.user.name, outcome.user.groups) == (user, groups)
    names = {name for name, _ in outcome.headers}
    assert b"accept" in names
    assert not names & {b"x-remote-user", b"x-remote-group"}
    assert outcome.user is ANONYMOUS or b"authorization" not in names
    assert not any(b"bearer.authorization" in value for _, value in outcome.headers)


@pytest.mark.parametrize(
    ("config", "sender", "headers"),
    [
        pytest.param(CONFIG, "proxy of a stranger", BOB, id="unknown CA"),
        pytest.param(CONFIG, "false proxy", BOB, id="a proxy with another name"),
        pytest.param(CONFIG, "proxy", [], id="a proxy that names nobody and is nobody itself"),
        pytest.param(CONFIG, "server", [], id="a serving certificate"),
        pytest.param(CONFIG, "nothing", BAD, id="bad token"),
        pytest.param(CLIENT_CA_ONLY, "proxy", BOB, id="a proxy where none is known"),
    ],
)
async def test_what_fails_is_401_and_never_anonymous(
    config: AuthenticationConfig, sender: str, headers: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(StatusError) as caught:
        await Authenticator(config, tokens=reviewer()).authenticate(headers, PEERS[sender], NOW)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize(
    ("config", "sender", "headers", "warnings"),
    [
        pytest.param(CONFIG, "nothing", BOB, 1, id="an aggregator without a certificate"),
        pytest.param(CONFIG, "nothing", [], 0, id="nobody is named"),
        pytest.param(CONFIG, "nothing", [*BOB, *GOOD], 0, id="a client with a token"),
        pytest.param(CONFIG, "proxy", BOB, 0, id="through the proxy"),
        pytest.param(CLIENT_CA_ONLY, "nothing", BOB, 0, id="where there is no front proxy"),
    ],
)
async def test_headers_without_a_certificate_are_warned_of_once(
    config: AuthenticationConfig,
    sender: str,
    headers: list[tuple[bytes, bytes]],
    warnings: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authenticator = Authenticator(config, tokens=reviewer())
    for _ in range(3):
        await authenticator.authenticate(headers, PEERS[sender], NOW)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == warnings
    assert all("--proxy-client-cert-file" in each and "bob" not in each for each in said)


async def test_an_expired_certificate_is_401() -> None:
    with pytest.raises(StatusError, match="Unauthorized"):
        await Authenticator(CONFIG).authenticate([], PEERS["alice"], NOW + 10 * 365 * 86400)


async def test_without_anonymous_who_offers_nothing_is_401() -> None:
    authenticator = Authenticator(CONFIG, tokens=reviewer(), anonymous=False)
    with pytest.raises(StatusError, match="Unauthorized"):
        await authenticator.authenticate([], None, NOW)
    assert (await authenticator.authenticate(GOOD, None, NOW)).user.name == "carol"


async def test_without_an_api_server_a_token_is_nothing() -> None:
    outcome = await Authenticator(CLIENT_CA_ONLY).authenticate(GOOD, None, NOW)
    assert outcome.user is ANONYMOUS


async def test_replacing_tells_about_a_new_bundle_only() -> None:
    bundles: list[bytes] = []
    authenticator = Authenticator(AuthenticationConfig(), on_change=bundles.append)
    authenticator.replace(CONFIG)
    authenticator.replace(AuthenticationConfig(CONFIG.client_ca, CONFIG.request_header, CONFIG.request_header_ca))
    authenticator.replace(CLIENT_CA_ONLY)
    authenticator.replace(AuthenticationConfig(CONFIG.client_ca, CONFIG.request_header, CLIENT_CA.cert_pem))
    both = CLIENT_CA.cert_pem.strip() + b"\n" + PROXY_CA.cert_pem.strip()
    assert bundles == [both, CLIENT_CA.cert_pem.strip()], "the same CA twice is in the bundle once"
    assert (await authenticator.authenticate([], PEERS["alice"], NOW)).user.name == "alice"


async def test_a_replaced_ca_is_refused_at_once() -> None:
    authenticator = Authenticator(CONFIG)
    await authenticator.authenticate([], PEERS["alice"], NOW)
    authenticator.replace(AuthenticationConfig(ClientCA(STRANGER.cert_pem, Roots.from_pem(STRANGER.cert_pem))))
    with pytest.raises(StatusError, match="Unauthorized"):
        await authenticator.authenticate([], PEERS["alice"], NOW)


# --- until the CAs are known ---

PROXY_CA_ONLY = AuthenticationConfig(request_header=CONFIG.request_header, request_header_ca=PROXY_CA.cert_pem)
# The front proxy's certificate is one of the client CA's, which is known already.
PROXY_OF_CLIENT_CA = peer(issue_client(CLIENT_CA, "front-proxy-client", [], NOW))
UNKNOWN = AuthenticationConfig()

WAITING: dict[str, tuple[AuthenticationConfig, PeerCertificate | None, list[tuple[bytes, bytes]], bool, str | int]] = {
    # name: (what is known, certificate, headers, whether it is for anyone, user or code)
    "nobody, who was not asked for a certificate": (UNKNOWN, None, [], False, 503),
    "headers, with no certificate": (UNKNOWN, None, BOB, False, 503),
    "headers of one kind": (UNKNOWN, None, [(b"x-remote-extra-a", b"b")], False, 503),
    "a front proxy": (UNKNOWN, PEERS["proxy"], BOB, False, 503),
    "a client": (UNKNOWN, PEERS["alice"], [], False, 503),
    "headers and a token": (UNKNOWN, None, [*BOB, *GOOD], False, 503),
    "a token": (UNKNOWN, None, GOOD, False, "carol"),
    "a bad token": (UNKNOWN, None, BAD, False, 401),
    "a client of a CA of our own": (CLIENT_CA_ONLY, PEERS["alice"], [], False, "alice"),
    "a front proxy of a CA of our own": (CLIENT_CA_ONLY, PROXY_OF_CLIENT_CA, BOB, False, 503),
    "a certificate of another CA": (CLIENT_CA_ONLY, PEERS["proxy"], [], False, 503),
    "a front proxy that a flag names": (PROXY_CA_ONLY, PEERS["proxy"], BOB, False, "bob"),
    "a client where a flag names the front proxy": (PROXY_CA_ONLY, PEERS["alice"], [], False, 503),
    "headers where a flag names the front proxy": (PROXY_CA_ONLY, None, BOB, False, 503),
    "a probe": (UNKNOWN, None, [], True, "system:anonymous"),
    "a probe with headers": (UNKNOWN, None, BOB, True, "system:anonymous"),
    "a probe of a front proxy": (UNKNOWN, PEERS["proxy"], BOB, True, "system:anonymous"),
}


@pytest.mark.parametrize("name", WAITING)
@pytest.mark.parametrize("anonymous", [True, False])
async def test_who_it_is_while_the_cas_are_not_known(name: str, anonymous: bool) -> None:
    config, certificate, headers, for_anyone, expected = WAITING[name]
    waits: list[str | None] = ["the ConfigMap"]
    authenticator = Authenticator(config, tokens=reviewer(), anonymous=anonymous, waiting=lambda: waits[0])
    if expected == "system:anonymous" and not anonymous:
        expected = 401
    if isinstance(expected, int):
        with pytest.raises(StatusError) as caught:
            await authenticator.authenticate(headers, certificate, NOW, for_anyone=for_anyone)
        assert (caught.value.code, caught.value.retry_after) == (expected, 1 if expected == 503 else 0)
    else:
        outcome = await authenticator.authenticate(headers, certificate, NOW, for_anyone=for_anyone)
        assert outcome.user.name == expected
        assert not {key for key, _ in outcome.headers} & {b"x-remote-user", b"x-remote-group"}
    # Once all are known, it is decided as ever, except on a connection from before.
    waits[0] = None
    authenticator.replace(CONFIG)
    if certificate == PEERS["proxy"] and headers == BOB:
        assert (await authenticator.authenticate(headers, certificate, NOW)).user.name == "bob"


FROM_BEFORE: dict[str, tuple[PeerCertificate | None, list[tuple[bytes, bytes]], bool, str | int]] = {
    # name: (certificate, headers, whether it is for anyone, user or code)
    "nobody, who was not asked for a certificate": (None, [], False, 503),
    "headers, with no certificate": (None, BOB, False, 503),
    "a token": (None, GOOD, False, "carol"),
    "headers and a token": (None, [*BOB, *GOOD], False, "carol"),
    "a bad token": (None, BAD, False, 401),
    "a client of a CA that was known": (PEERS["alice"], [], False, "alice"),
    "a front proxy of a CA that was known": (PEERS["proxy"], BOB, False, "bob"),
    "a probe": (None, BOB, True, "system:anonymous"),
}


@pytest.mark.parametrize("name", FROM_BEFORE)
async def test_who_it_is_on_a_connection_from_before_the_cas_were_known(name: str) -> None:
    certificate, headers, for_anyone, expected = FROM_BEFORE[name]
    asked = Authenticator(CONFIG, tokens=reviewer()).authenticate(
        headers, certificate, NOW, knew_all_cas=False, for_anyone=for_anyone
    )
    if isinstance(expected, int):
        with pytest.raises(StatusError) as caught:
            await asked
        assert caught.value.code == expected
    else:
        assert (await asked).user.name == expected


async def test_the_proxy_s_users_are_known_by_their_headers_alone() -> None:
    proxy = RequestHeaderConfig(Roots.from_pem(PROXY_CA.cert_pem))
    authenticator = Authenticator(AuthenticationConfig(request_header=proxy, request_header_ca=PROXY_CA.cert_pem))
    users = [
        (await authenticator.authenticate([*BOB, (b"audit-id", b"%d" % number)], PEERS["proxy"], NOW)).user for number in range(3)
    ]
    assert users[0].name == "bob"
    assert len(proxy.known) == 1, "the other headers differ in every request"
