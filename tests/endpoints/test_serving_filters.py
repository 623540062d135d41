"""HSTS, GOAWAY by chance, and CORS, through the filters of a server."""

from __future__ import annotations

import dataclasses

import pytest

from aggserver.app import engine as engine_module
from aggserver.endpoints import serving_filters
from aggserver.options import Options, OptionsError, parse
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import ADMIN, ALICE, ByPeer, LocalServer


@pytest.fixture
async def server():
    made = LocalServer()
    await made.start()
    made.serve(CRONTABS)
    await made.client().post(CRONTABS_PATH, crontab("one"))
    yield made
    await made.stop()


def client(server, **options):
    chain = server.engine.chain(ByPeer(), server.rules, Options(command="dev", **options))
    return Client(server.engine.application(chain), ADMIN), server.engine.lane(chain, Options(command="dev"))


PATHS = ["/healthz", f"{CRONTABS_PATH}/one", f"{CRONTABS_PATH}/none", "/nonsense", "/version?timeout=x", "/apis"]


@pytest.mark.parametrize("path", PATHS)
async def test_hsts_is_in_every_response(server, path):
    asking, _ = client(server, hsts_directives=("max-age=31536000", "includeSubDomains"))
    for user in (ADMIN, ALICE, None):
        answer = await asking.as_user(user).get(path)
        assert answer.header("strict-transport-security") == "max-age=31536000; includeSubDomains"
    assert (await server.client().get(path)).header("strict-transport-security") == ""


async def test_hsts_is_in_what_is_answered_at_once(server):
    asking, lane = client(server, hsts_directives=("max-age=31536000", "includeSubDomains"))
    await asking.get(f"{CRONTABS_PATH}/one")
    scope = {"type": "http", "method": "GET", "path": f"{CRONTABS_PATH}/one", "query_string": b"", "http_version": "2"}
    scope |= {"headers": [], "state": {"peer_certificate": ADMIN}}
    assert (b"strict-transport-security", b"max-age=31536000; includeSubDomains") in lane(scope, 1 << 20).headers


async def test_goaway_for_a_share(server, monkeypatch):
    drawn = iter([0.019, 0.02, 0.5, 0.001])
    monkeypatch.setattr(engine_module.random, "random", lambda: next(drawn))
    asking, _ = client(server, goaway_chance=0.02)
    ended = [(await asking.get("/healthz", http_version=version)).header("connection") for version in ("2", "2", "2", "1.1", "2")]
    assert ended == ["close", "", "", "", "close"]


async def test_goaway_does_not_spare_the_anonymous(server):
    asking, _ = client(server, goaway_chance=0.02)
    assert (await asking.as_user(None).get("/healthz", http_version="2")).header("connection") == "close"


ORIGINS = {
    "host": (r"//example\.com(:|$)", "https://example.com", True),
    "port": (r"//example\.com(:|$)", "https://example.com:8443", True),
    "another host": (r"//example\.com(:|$)", "https://example.com.evil.test", False),
    "a longer host": (r"//example\.com(:|$)", "https://badexample.com", False),
    "subdomain": (r"^https://[a-z]+\.example\.com$", "https://a.example.com", True),
    "scheme": (r"^https://example\.com$", "http://example.com", False),
    "no origin": (r"//example\.com(:|$)", "", False),
    "very long": (r"//.*$", "https://" + "a" * 2000, False),
}


@pytest.mark.parametrize(("pattern", "origin", "allowed"), ORIGINS.values(), ids=ORIGINS)
async def test_origins(server, pattern, origin, allowed):
    asking, _ = client(server, cors_allowed_origins=("//other.test$", pattern))
    headers = {"Origin": origin} if origin else {}
    answer = await asking.get(f"{CRONTABS_PATH}/one", headers=headers)
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == (origin if allowed else "")
    assert answer.header("access-control-allow-credentials") == ("true" if allowed else "")


async def test_preflight_needs_no_user(server):
    asking, _ = client(server, cors_allowed_origins=("//example.com$",))
    headers = {"Origin": "https://example.com", "Access-Control-Request-Method": "PUT"}
    answer = await asking.as_user(None).request("OPTIONS", CRONTABS_PATH, headers=headers)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.header("access-control-allow-methods") == "POST, GET, OPTIONS, PUT, DELETE, PATCH"
    assert answer.header("content-length") == ""
    refused = await asking.as_user(None).request("OPTIONS", CRONTABS_PATH, headers={"Origin": "https://evil.test"})
    assert refused.status == 403


async def test_a_pattern_can_not_take_long(server):
    """As a backtracking engine would, for 2 to the 40 steps."""
    asking, _ = client(server, cors_allowed_origins=(r"^https://(a+)+$",))
    answer = await asking.get("/healthz", headers={"Origin": "https://" + "a" * 40 + "!"})
    assert answer.header("access-control-allow-origin") == ""


def test_nothing_is_in_the_way_without_flags():
    assert serving_filters.outermost((), 0.0, lambda: 0.0) == {}
    assert serving_filters.cross_origin(()) == {}


REFUSED = {
    "chance": (["--goaway-chance=0.03"], "--goaway-chance can not be less than 0 or greater than 0.02"),
    "negative chance": (["--goaway-chance=-0.01"], "--goaway-chance can not be less than 0 or greater than 0.02"),
    "no chance": (["--goaway-chance=often"], "--goaway-chance: must be a number"),
    "empty directive": (
        ["--strict-transport-security-directives=max-age=1,,preload"],
        "empty value in strict-transport-security-directives",
    ),
    "unknown directive": (
        ["--strict-transport-security-directives=max-age=1,always"],
        "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see "
        "https://tools.ietf.org/html/rfc6797#section-6.1 for more information",
    ),
    "unpinned": (
        ["--cors-allowed-origins=example.com"],
        "--cors-allowed-origins has an invalid regular expression: regular expression does not pin to start/end of host in the "
        "origin header, help: List of allowed origins",
    ),
    "half pinned": (["--cors-allowed-origins=^example"], "regular expression does not pin to start/end of host"),
    "no expression": (["--cors-allowed-origins=//a(:|$"], "invalid regular expression: error parsing regexp: missing closing )"),
    "empty": (["--cors-allowed-origins=//a$,"], "empty value in --cors-allowed-origins, help: "),
    "one file": (["--tls-sni-cert-key=cert"], "expected comma separated certificate and key file paths"),
    "three files": (["--tls-sni-cert-key=a,b,c"], "expected comma separated certificate and key file paths"),
    "no names": (["--tls-sni-cert-key=a,b:"], "empty names list is not allowed"),
    "streams": (["--http2-max-streams-per-connection=-1"], "must be a whole number, 0 or more"),
    "module": (["--vmodule=cacher"], '"cacher" does not have the pattern=N format'),
    "modules": (["--vmodule=cacher=4,a=b"], 'parsing verbosity in "a=b"'),
    "log format": (["--logging-format=xml"], "must be one of text, json"),
}


@pytest.mark.parametrize("command", ["serve", "dev"])
@pytest.mark.parametrize(("argv", "text"), REFUSED.values(), ids=REFUSED)
def test_wrong_flags(command, argv, text):
    with pytest.raises(OptionsError) as error:
        parse([command, *argv], {})
    assert text in str(error.value)


def test_right_flags():
    argv = ["--tls-sni-cert-key", "a,b", "--tls-sni-cert-key", "c,d:*.x.test, y.test", "--goaway-chance", "0.001"]
    options = parse(["serve", *argv, "--cors-allowed-origins", r"//a\.b$,^https://c:", "-v", "3", "--vmodule=a*=1,b=2"], {})
    assert options.sni_pairs == (("a", "b", ()), ("c", "d", ("*.x.test", "y.test")))
    assert (options.goaway_chance, options.verbosity, options.vmodule) == (0.001, 3, (("a*", 1), ("b", 2)))
    assert options.cors_allowed_origins == (r"//a\.b$", "^https://c:")
    assert dataclasses.replace(options, command="dev").command == "dev"
