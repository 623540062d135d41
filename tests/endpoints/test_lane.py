"""The lane: which requests take it, and that what has changed is seen by the next one.

That it answers as the application does is checked for every request of every test with a LocalServer (`tests/fakes/lane.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast

import pytest

from aggserver.authentication.delegating import AuthenticationConfig, Authenticator, ClientCA
from aggserver.authentication.tokens import TokenReviewer
from aggserver.authentication.x509 import Roots
from aggserver.authorization.delegating import DelegatingAuthorizer
from aggserver.endpoints.lane import USUAL, Lane, LaneAnswer
from aggserver.endpoints.loading import loading
from aggserver.endpoints.request import AnyResponse, ASGIResponse, Request, Response, StreamResponse
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.options import Options
from tests.authentication.test_delegating_authentication import CLIENT_CA_ONLY, CONFIG, NOW, PEERS, STRANGER
from tests.fakes.asgi import Client
from tests.fakes.clock import settled
from tests.fakes.cluster import FakeCluster
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab, definition, version
from tests.fakes.lane import Uncounted
from tests.fakes.server import ADMIN, ALICE, LocalServer
from tests.integration import cases_reads

Headers = Mapping[str, str] | list[tuple[str, str]]

ONE = f"{CRONTABS_PATH}/one"
ROOM = 1 << 20

KUBECTL = {
    "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "Accept-Encoding": "gzip",
    "Kubectl-Command": "kubectl get",
    "Kubectl-Session": "4c3f9f0e-3a5c-4c1d-8d4a-0d8f2a1b7c6e",
    "User-Agent": "kubectl/v1.36.3 (linux/amd64) kubernetes/1234567",
}
CLIENT_GO = {
    "Accept": "application/json, */*",
    "Accept-Encoding": "gzip",
    "User-Agent": "manager/v0.0.0 (linux/amd64) kubernetes/$Format",
}
PYTHON = {
    "Accept": "application/json",
    "Content-Type": "application/json",
    "User-Agent": "OpenAPI-Generator/36.0.0/python",
}
FORWARDED = [
    ("Host", "10.0.0.1:443"),
    ("Audit-Id", "0b1d0e0c-7b5f-4a52-8f7d-8a3b6a0d9f55"),
    ("X-Forwarded-For", "10.0.0.7"),
    ("X-Forwarded-Host", "127.0.0.1:6443"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Uri", ONE),
    ("X-Remote-User", "kubernetes-admin"),
    ("X-Remote-Group", "system:masters"),
    ("X-Remote-Group", "system:authenticated"),
    ("X-Remote-Uid", "7"),
    ("X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id", "X509SHA256=0123"),
]


def scope_of(
    target: str = ONE, headers: Headers = (), user: Any = ADMIN, method: str = "GET", *, knew_all_cas: bool = True
) -> dict[str, Any]:
    """An ASGI scope of HTTP/2. user: what is in the place of the connection's certificate."""
    path, _, query = target.partition("?")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return {
        "type": "http",
        "http_version": "2",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
        "state": {"peer_certificate": user, "knew_all_cas": knew_all_cas},
    }


@pytest.fixture(autouse=True)
async def made(server: LocalServer, client: Client) -> None:
    server.serve(CRONTABS)
    answer = await client.post(CRONTABS_PATH, crontab())
    assert answer.status == 201
    assert (await client.get(ONE)).status == 200


# --- what takes it ---

CLIENTS: dict[str, Headers] = {
    "kubectl": KUBECTL,
    "client-go": CLIENT_GO,
    "the Kubernetes client for Python": PYTHON,
    "kubectl through the aggregator": [*KUBECTL.items(), *FORWARDED],
    "client-go through the aggregator": [*CLIENT_GO.items(), *FORWARDED],
    "the Kubernetes client for Python through the aggregator": [*PYTHON.items(), *FORWARDED],
    "curl": {"Accept": "*/*", "User-Agent": "curl/8.5.0"},
    "YAML": {"Accept": "application/yaml"},
    "traced": {"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_clients_whose_gets_take_the_lane(server: LocalServer, name: str) -> None:
    answer = server.lane(scope_of(headers=CLIENTS[name]), ROOM)
    assert answer is not None
    assert answer.status == 200
    given = dict(CLIENTS[name]).get("Audit-Id", "audit-1")
    assert (b"audit-id", given.encode()) in answer.headers


async def test_kubectl_gets_what_the_application_sends(server: LocalServer, client: Client) -> None:
    for headers in CLIENTS.values():
        server.app.taken.clear()
        await client.get(ONE, headers=dict(headers))
        assert len(server.app.taken) == 1


LISTS = {
    "by a label": "labelSelector=app%3Dweb",
    "by labels that none has": "labelSelector=app%3Dnone%2Ctier%21%3Dfront",
    "by a name": "fieldSelector=metadata.name%3Done",
    "of cached objects": "labelSelector=app%3Dweb&resourceVersion=0",
    "with a limit": "labelSelector=app%3Dweb&limit=500",
    "refused: a selector": "labelSelector=%3D%3D",
    "refused: a field": "fieldSelector=spec.unknown%3D1",
    "refused: a limit": "labelSelector=app%3Dweb&limit=x",
}


@pytest.mark.parametrize("name", LISTS)
async def test_lists_by_selectors_take_the_lane(server: LocalServer, client: Client, name: str) -> None:
    labelled = crontab("two")
    labelled["metadata"]["labels"] = {"app": "web"}
    assert (await client.post(CRONTABS_PATH, labelled)).status == 201
    for headers in (KUBECTL, CLIENT_GO):
        server.app.taken.clear()
        answer = await client.get(f"{CRONTABS_PATH}?{LISTS[name]}", headers=headers)
        assert len(server.app.taken) == 1
        assert answer.status == (400 if "refused" in name else 200)


async def test_a_list_waits_for_its_index_in_a_task(server: LocalServer, client: Client) -> None:
    """An index is built in turns of the event loop, and begun by the lane or by a task."""
    for number in range(500):
        await server.storage.create(f"/stable.example.com/crontabs/default/{number}", stored(number))
    target = f"{CRONTABS_PATH}?labelSelector=number%3D7"
    assert server.lane(scope_of(target), ROOM) is None
    answer = await client.get(target)
    assert [item["metadata"]["name"] for item in answer.json()["items"]] == ["7"]
    assert server.lane(scope_of(target), ROOM) is not None


def stored(number: int) -> bytes:
    obj = crontab(str(number))
    obj["metadata"]["labels"] = {"number": str(number)}
    return codec.encode_json(obj)


CASES = {name: request.headers for name, case in cases_reads.CASES.items() for request in case if request.method == "GET"}


async def test_headers_that_are_compared_with_upstream(server: LocalServer, client: Client) -> None:
    """The answers to a get are those of the application in every form that the integration tests ask kube-apiserver for."""
    for headers in {tuple(sorted(headers.items())): headers for headers in CASES.values()}.values():
        for target in (ONE, f"{CRONTABS_PATH}/nothing"):
            await client.get(target, headers=headers)
            assert server.app.taken, headers
            server.app.taken.clear()


OTHERS: dict[str, dict[str, Any]] = {
    "a HEAD": {"method": "HEAD"},
    "a POST": {"method": "POST", "target": CRONTABS_PATH},
    "a DELETE": {"method": "DELETE"},
    "a list": {"target": CRONTABS_PATH},
    "a list in pages": {"target": f"{CRONTABS_PATH}?limit=5"},
    "a list that goes on": {"target": f"{CRONTABS_PATH}?labelSelector=a&continue=x"},
    "a list with a time limit": {"target": f"{CRONTABS_PATH}?labelSelector=a&timeout=x"},
    "a watch": {"target": f"{CRONTABS_PATH}?labelSelector=a&watch=1"},
    "a list by a selector at a path of one object": {"target": f"{ONE}?labelSelector=a"},
    "a list of all namespaces": {"target": "/apis/stable.example.com/v1/crontabs"},
    "a subresource": {"target": f"{ONE}/status"},
    "a parameter": {"target": f"{ONE}?resourceVersion=0"},
    "an unknown parameter": {"target": f"{ONE}?pretty=true"},
    "a watch of old": {"target": "/apis/stable.example.com/v1/watch/namespaces/default/crontabs/one"},
    "discovery": {"target": "/apis/stable.example.com/v1"},
    "another path": {"target": "/version"},
    "another resource": {"target": f"{CRONTABS_PATH}s/one"},
    "impersonation": {"headers": {"Impersonate-User": "alice"}},
    "impersonation of a group alone": {"headers": {"Impersonate-Group": "ops"}},
    "a websocket": {"headers": {"Connection": "Upgrade", "Upgrade": "websocket"}},
    "a header that nobody sends": {"headers": {"X-Remote-Whatever": "1"}},
    "a condition": {"headers": {"If-None-Match": '"1"'}},
    "a body": {"headers": {"Content-Length": "2"}},
}


@pytest.mark.parametrize("name", OTHERS)
async def test_requests_that_do_not_take_it(server: LocalServer, name: str) -> None:
    assert server.lane(scope_of(**OTHERS[name]), ROOM) is None
    assert server.lane(scope_of(), ROOM) is not None


def test_no_usual_header_changes_who_asks() -> None:
    """Those that the authenticators read are checked by them; no other says who the user is."""
    assert not [name for name in USUAL if name.startswith((b"impersonate-", b"sec-", b"upgrade", b"connection"))]


async def test_what_does_not_fit(server: LocalServer, client: Client) -> None:
    size = len((await client.get(ONE)).body)
    assert server.lane(scope_of(), size) is not None
    assert server.lane(scope_of(), size - 1) is None
    large = crontab("large")
    large["metadata"]["annotations"] = {"a": "x" * 150_000}
    assert (await client.post(CRONTABS_PATH, large)).status == 201
    assert server.lane(scope_of(f"{CRONTABS_PATH}/large"), ROOM) is None, "it may be compressed, and in a thread"


async def test_logged_requests_are_answered_by_the_application(server: LocalServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "aggserver.requests"):
        assert server.lane(scope_of(), ROOM) is None
    assert server.lane(scope_of(), ROOM) is not None


async def test_a_cache_that_is_behind(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that is acknowledged and not yet in the cache must be in the next answer."""
    newest = await server.storage.revision()

    async def revision() -> int:
        return newest

    monkeypatch.setattr(server.storage, "revision", revision)
    for acknowledged, answers in ((0, True), (1, False), (-1, True)):
        newest += acknowledged
        assert (server.lane(scope_of(), ROOM) is not None) == answers


async def test_a_cache_that_is_not_filled(server: LocalServer) -> None:
    other = LocalServer(server.storage)
    other.serve(CRONTABS)
    assert other.lane(scope_of(), ROOM) is None
    assert (await other.client().get(ONE)).status == 200
    assert other.lane(scope_of(), ROOM) is not None


async def test_objects_that_are_elsewhere(server: LocalServer) -> None:
    served = server.engine.installer.find("stable.example.com", "v1", "crontabs")
    assert served is not None
    served.in_storage = False
    assert server.lane(scope_of(), ROOM) is None


# --- what is counted, and refused ---


async def test_it_counts(server: LocalServer) -> None:
    def counted() -> dict[str, float]:
        text = server.engine.metrics.exposition().decode()
        return {
            line.partition("{")[0] + line.partition('code="')[2][:3]: float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if 'resource="crontabs"' in line and 'verb="GET"' in line and "bucket" not in line
        }

    before = counted()
    answer = server.lane(scope_of(), ROOM)
    assert answer is not None
    after = counted()
    assert after["apiserver_request_total200"] == before["apiserver_request_total200"] + 1
    assert after["apiserver_request_duration_seconds_count"] == before["apiserver_request_duration_seconds_count"] + 1
    assert after["apiserver_response_sizes_sum"] == before["apiserver_response_sizes_sum"] + len(answer.body)


async def test_the_limit_of_requests_in_flight() -> None:
    server = LocalServer(reading=1)
    await server.start()
    server.serve(CRONTABS)
    client = server.client()
    await client.post(CRONTABS_PATH, crontab())
    await client.get(ONE)
    server.rules.allowed.add(("alice", "get", "crontabs"))
    alone = server.lane(scope_of(user=ALICE), ROOM)
    assert alone is not None
    assert alone.status == 200
    slow = client.send("GET", ONE)
    slow.taking.clear()
    await settled()
    refused = server.lane(scope_of(user=ALICE), ROOM)
    assert refused is not None
    assert refused.status == 429
    assert (b"retry-after", b"1") in refused.headers
    exempt = server.lane(scope_of(user=ADMIN), ROOM)
    assert exempt is not None
    assert exempt.status == 200
    slow.taking.set()
    await slow.task
    again = server.lane(scope_of(user=ALICE), ROOM)
    assert again is not None
    assert again.status == 200
    await server.stop()


# --- what changes is seen by the next request ---


def status(answer: LaneAnswer | None) -> int:
    assert answer is not None
    return answer.status


async def test_permissions(server: LocalServer) -> None:
    assert status(server.lane(scope_of(user=ALICE), ROOM)) == 403
    server.rules.allowed.add(("alice", "get", "crontabs"))
    assert status(server.lane(scope_of(user=ALICE), ROOM)) == 200
    server.rules.allowed.clear()
    refused = server.lane(scope_of(user=ALICE), ROOM)
    assert status(refused) == 403
    assert refused is not None
    assert (b"x-content-type-options", b"nosniff") in refused.headers


async def test_objects(server: LocalServer, client: Client) -> None:
    await client.merge(ONE, {"spec": {"replicas": 7}})
    answer = server.lane(scope_of(), ROOM)
    assert answer is not None
    assert b'"replicas":7' in answer.body
    await client.delete(ONE)
    assert status(server.lane(scope_of(), ROOM)) == 404


async def test_a_definition_that_is_gone(server: LocalServer) -> None:
    server.engine.definitions.remove(CRONTABS["metadata"]["name"])
    assert server.lane(scope_of(), ROOM) is None


async def test_a_version_that_is_not_served_any_more(server: LocalServer) -> None:
    changed = {**CRONTABS, "spec": {**CRONTABS["spec"], "versions": [*map(dict, CRONTABS["spec"]["versions"])]}}
    changed["spec"]["versions"][0]["served"] = False
    changed["metadata"] = {**CRONTABS["metadata"], "generation": 2}
    server.serve(changed)
    assert server.lane(scope_of(), ROOM) is None


async def test_another_version_and_schema(server: LocalServer, client: Client) -> None:
    """An object is shown in the version asked for, and pruned by the schema of now."""

    def things(versions: list[JSONObject], generation: int) -> JSONObject:
        made = definition("things", "Thing", *versions)
        made["metadata"]["generation"] = generation
        return made

    path = "/apis/stable.example.com/{}/namespaces/default/things"
    both, text = {"a": {"type": "string"}, "b": {"type": "string"}}, {"a": {"type": "string"}}
    server.serve(things([version("v1", {"spec": {"type": "object", "properties": both}}), version("v2", {}, storage=False)], 1))
    body = {"apiVersion": "stable.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"a": "1", "b": "2"}}
    assert (await client.post(path.format("v1"), body)).status == 201
    for each in ("v1", "v2"):  # a conversion is made once, and lets others run; then it is known
        await client.get(f"{path.format(each)}/one")
    other = server.lane(scope_of(f"{path.format('v2')}/one"), ROOM)
    assert other is not None
    assert b'"apiVersion":"stable.example.com/v2"' in other.body
    server.serve(things([version("v1", {"spec": {"type": "object", "properties": text}}), version("v2", {}, storage=False)], 2))
    await client.get(f"{path.format('v1')}/one")
    pruned = server.lane(scope_of(f"{path.format('v1')}/one"), ROOM)
    assert pruned is not None
    assert b'"spec":{"a":"1"}' in pruned.body


# --- who asks ---


def lane_of(server: LocalServer, authenticator: Authenticator, **more: Any) -> Callable[..., LaneAnswer | None]:
    """A lane with the real authentication, at a time when the certificates are valid."""
    server.clock.now = NOW
    options = Options(command="serve")
    lane = server.engine.lane(server.engine.chain(authenticator, server.rules, options, **more), options)
    return lambda **scope: lane(scope_of(**scope), ROOM)


NAMED = [("X-Remote-User", "kubernetes-admin"), ("X-Remote-Group", "system:masters")]


async def test_header_identity_is_believed_of_the_front_proxy_only(server: LocalServer) -> None:
    ask = lane_of(server, Authenticator(CONFIG))
    assert status(ask(user=PEERS["proxy"], headers=NAMED)) == 200
    for name in ("false proxy", "proxy of a stranger"):
        refused = ask(user=PEERS[name], headers=NAMED)
        assert status(refused) == 401
        assert refused is not None
        assert (b"connection", b"close") in refused.headers
    assert status(ask(user=PEERS["alice"], headers=NAMED)) == 403, "she is alice, whatever the headers say"
    anonymous = ask(user=PEERS["nothing"], headers=NAMED)
    assert status(anonymous) == 403
    assert anonymous is not None
    assert (b"connection", b"close") in anonymous.headers
    assert b"system:anonymous" in anonymous.body


async def test_each_request_has_its_own_user(server: LocalServer) -> None:
    ask = lane_of(server, Authenticator(CONFIG))
    server.rules.allowed.add(("bob", "get", "crontabs"))
    for name, expected in (("bob", 200), ("eve", 403), ("bob", 200), ("", 401)):
        answer = ask(user=PEERS["proxy"], headers=[("X-Remote-User", name)])
        assert status(answer) == expected


async def test_replaced_cas(server: LocalServer) -> None:
    server.rules.allowed.add(("alice", "get", "crontabs"))
    authenticator = Authenticator(CONFIG)
    ask = lane_of(server, authenticator)
    assert status(ask(user=PEERS["alice"])) == 200
    assert status(ask(user=PEERS["proxy"], headers=NAMED)) == 200
    authenticator.replace(AuthenticationConfig(ClientCA(STRANGER.cert_pem, Roots.from_pem(STRANGER.cert_pem))))
    assert status(ask(user=PEERS["alice"])) == 401
    assert status(ask(user=PEERS["proxy"], headers=NAMED)) == 401
    authenticator.replace(CLIENT_CA_ONLY)
    assert status(ask(user=PEERS["alice"])) == 200
    assert status(ask(user=PEERS["proxy"], headers=NAMED)) == 401


async def test_certificates_that_expire(server: LocalServer) -> None:
    server.rules.allowed.add(("alice", "get", "crontabs"))
    ask = lane_of(server, Authenticator(CONFIG))
    assert status(ask(user=PEERS["alice"])) == 200
    server.clock.advance(100 * 365 * 86400.0)
    assert status(ask(user=PEERS["alice"])) == 401


async def test_cas_that_are_not_known_yet(server: LocalServer) -> None:
    why: list[str | None] = ["the ConfigMap has not been read"]
    ask = lane_of(server, Authenticator(AuthenticationConfig(), waiting=lambda: why[0]))
    assert status(ask(user=None, headers=NAMED)) == 503
    why[0] = None
    assert status(ask(user=None)) == 403
    assert status(ask(user=None, knew_all_cas=False)) == 503


async def test_tokens(server: LocalServer) -> None:
    """A token is reviewed for the application; then the lane knows it, until it is forgotten."""
    cluster = FakeCluster()
    user = {"username": "carol", "groups": ["system:masters"]}
    cluster.on("POST", "/apis/authentication.k8s.io/v1/tokenreviews", lambda _: {"status": {"authenticated": True, "user": user}})
    reviewer = TokenReviewer(cluster, clock=server.clock)
    authenticator = Authenticator(CLIENT_CA_ONLY, tokens=reviewer)
    ask = lane_of(server, authenticator)
    token = {"Authorization": "Bearer good"}
    assert ask(user=None, headers=token) is None
    await reviewer.review("good")
    assert len(cluster.calls) == 1, "the review that the lane has begun is the one"
    assert status(ask(user=None, headers=token)) == 200
    server.clock.advance(11)
    assert ask(user=None, headers=token) is None


async def test_permissions_that_have_to_be_asked_for(server: LocalServer) -> None:
    cluster = FakeCluster()
    cluster.on("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", lambda _: {"status": {"allowed": True}})
    authorizer = DelegatingAuthorizer(cluster, clock=server.clock)
    options = Options(command="serve")
    chain = server.engine.chain(Authenticator(CONFIG), authorizer, options)
    lane, application = server.engine.lane(chain, options), server.engine.application(chain)
    server.clock.now = NOW
    scope = scope_of(user=PEERS["alice"])
    assert lane(scope, ROOM) is None
    answer = await Client(application, PEERS["alice"]).get(ONE)  # type: ignore[arg-type]
    assert answer.status == 200
    assert len(cluster.calls) == 1, "both wait for one review"
    assert status(lane(scope, ROOM)) == 200
    server.clock.advance(11)
    assert lane(scope, ROOM) is None
    await settled()


async def test_filters_of_a_mode(server: LocalServer) -> None:
    missing: list[str | None] = ["the folder has not been read"]
    ask = lane_of(server, Authenticator(CONFIG), before_authorization={"loading": loading(lambda: missing[0])})
    assert status(ask(user=PEERS["proxy"], headers=NAMED)) == 503
    missing[0] = None
    assert status(ask(user=PEERS["proxy"], headers=NAMED)) == 200


# --- what goes wrong ---


@pytest.mark.parametrize("error", [RuntimeError("no task"), ExceptionGroup("some", [ValueError()])])
async def test_failures_are_the_applications(
    server: LocalServer, caplog: pytest.LogCaptureFixture, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(request: Any) -> Any:
        raise error

    monkeypatch.setattr(server, "handler", fail)
    assert server.lane(scope_of(), ROOM) is None
    assert not caplog.records


async def test_a_handler_that_waits_is_ended(server: LocalServer) -> None:
    ended: list[str] = []
    kept: list[object] = []
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(request: Request) -> Response:
        try:
            await never
        finally:
            ended.append(request.path)
        return Response(200, b"")

    def begin(request: Request) -> Awaitable[Response]:
        kept.append(waiting := wait(request))  # otherwise it would end as nobody refers to it
        return waiting

    lane = Lane(begin, {}, Uncounted(), lambda: "audit-1", server.engine.is_stored)
    assert lane(scope_of(), ROOM) is None
    assert ended == [ONE]


async def test_streams_have_a_task(server: LocalServer) -> None:
    async def nothing() -> AsyncGenerator[bytes, None]:
        yield b""

    always = {"a stream": StreamResponse(nothing()), "another application": ASGIResponse(cast(Any, None))}
    for response in always.values():

        async def answer(request: Request, response: AnyResponse = response) -> AnyResponse:
            return response

        server.handler = answer
        assert server.lane(scope_of(), ROOM) is None


def test_there_is_no_lane_on_etcd(server: LocalServer) -> None:
    options = Options(command="serve", storage="etcd")
    lane = server.engine.lane(server.engine.chain(Authenticator(CONFIG), server.rules, options), options)
    assert lane(scope_of(user=PEERS["proxy"], headers=NAMED), ROOM) is None
