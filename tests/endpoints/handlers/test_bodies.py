"""Bodies: how often they are decoded, and which of them in a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.endpoints.handlers import body
from aggserver.meta import codec, json_text, yaml_text
from aggserver.workers import Workers
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import LocalServer

YAML = "application/yaml"


@pytest.fixture(autouse=True)
async def served(server: LocalServer) -> None:
    server.serve(CRONTABS)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the calls of: jobs for the thread, the YAML decoder, the search for repeated keys in JSON."""
    found: list[str] = []

    class Threads(Workers):
        async def run(self, *args: Any, **more: Any) -> Any:
            found.append("thread")
            return await super().run(*args, **more)

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            found.append(name)
            return function(*args)

        return call

    monkeypatch.setattr(body, "_SLOW", Threads(1, "decoding"))
    monkeypatch.setattr(yaml_text, "decode", counted("yaml", yaml_text.decode))
    monkeypatch.setattr(json_text, "duplicate_fields", counted("json", json_text.duplicate_fields))
    return found


def as_yaml(tree: Any, more: str = "") -> bytes:
    # One key per line and not JSON, which would be YAML too, so that a repeated key can be appended.
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in tree.items()).encode() + more.encode()


LARGE = crontab(image="x" * 20_000)
BODIES: dict[str, tuple[bytes, str, list[str]]] = {
    "small YAML": (as_yaml(crontab()), YAML, ["yaml"]),
    "large YAML": (as_yaml(LARGE), YAML, ["thread", "yaml"]),
    "small YAML that repeats": (as_yaml(crontab(), "kind: CronTab\n"), YAML, ["yaml"]),
    "large YAML that repeats": (as_yaml(LARGE, "kind: CronTab\n"), YAML, ["thread", "yaml"]),
    "compact JSON": (json.dumps(LARGE, separators=(",", ":")).encode(), "application/json", []),
    "JSON with spaces": (json.dumps(LARGE, indent=2).encode(), "application/json", []),
    "JSON that repeats": (json.dumps(crontab())[:-1].encode() + b', "kind": "CronTab"}', "application/json", ["json"]),
    "large JSON that repeats": (json.dumps(LARGE)[:-1].encode() + b',"kind":"CronTab"}', "application/json", ["thread", "json"]),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_is_looked_at_once(client: Client, calls: list[str], name: str) -> None:
    text, content_type, expected = BODIES[name]
    answer = await client.post(CRONTABS_PATH, text, content_type=content_type)
    assert answer.status == 201
    assert calls == expected
    assert bool(answer.warnings) == ("repeats" in name)


async def test_the_turn_is_that_of_the_user(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    class Threads(Workers):
        async def run(self, user: str, size: int, *args: Any, **more: Any) -> Any:
            turns.append((user, size))
            return await super().run(user, size, *args, **more)

    monkeypatch.setattr(body, "_SLOW", Threads(1, "decoding"))
    text = as_yaml(LARGE)
    for user in ("alice", "bob"):
        await client.as_user(UserInfo(user, groups=(PRIVILEGED_GROUP,))).post(CRONTABS_PATH, text, content_type=YAML)
    assert turns == [("alice", len(text)), ("bob", len(text))]


async def test_a_large_broken_text(client: Client, calls: list[str]) -> None:
    answer = await client.post(CRONTABS_PATH, as_yaml(LARGE, "a: ["), content_type=YAML)
    assert (answer.status, calls) == (400, ["thread", "yaml"])
    assert "yaml: line 5: did not find expected node content" in answer.message


@pytest.mark.parametrize(("size", "on_loop"), [(100_000, True), (200_000, False)])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_large_json_is_decoded_in_a_thread(
    client: Client, monkeypatch: pytest.MonkeyPatch, size: int, on_loop: bool, method: str
) -> None:
    threads: list[int] = []
    decode = codec.decode_checking_keys

    def noted(text: bytes) -> Any:
        threads.append(threading.get_ident())
        return decode(text)

    monkeypatch.setattr(codec, "decode_checking_keys", noted)
    given = json.dumps(crontab(image="x" * size)).encode()
    target, kind = (CRONTABS_PATH, "application/json")
    if method == "PATCH":
        target, kind = f"{CRONTABS_PATH}/{crontab()['metadata']['name']}?fieldManager=a", "application/apply-patch+yaml"
    answer = await client.request(method, target, given, content_type=kind)
    assert answer.status == 201
    assert [thread == threading.get_ident() for thread in threads] == [on_loop]
