"""How writers and clients reach the server under test: HTTPS by its kubeconfig, and what they know in common.

A server that is gone is `Gone` to all of them; they wait until the scenario has it back (`Shared.up`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import random
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from tests import records
from tests.history.recording import Key, Object, key_of, revision_of

__all__ = ["GROUP", "KINDS", "Gone", "Progress", "Refused", "Shared", "Wire", "connected", "path_of"]

GROUP = "history.example.com/v1"
KINDS = {"notes": "Note", "signs": "Sign"}

_LIMIT = 1 << 24  # bytes of a line: a whole Table
_ORIGIN = "https://pages.example.com"  # a browser's: no websocket is had without
_SECONDS = 30.0  # for one answer; no watch is silent for as long


class Gone(Exception):
    """The connection was refused or broken off. Whether the request was carried out is unknown."""


class Refused(Exception):
    """A watch was answered with an error: `status` is a Status, of which a websocket's client sees only the code."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status


class Progress:
    """Counts acknowledged writes, so that others can wait for some more of them; once it is over, nobody waits."""

    def __init__(self) -> None:
        self.count = 0
        self.over = asyncio.Event()
        self._moved = asyncio.Event()

    def add(self) -> None:
        self.count += 1
        self._moved.set()
        self._moved = asyncio.Event()

    def finish(self) -> None:
        self.over.set()
        self._moved.set()

    async def more(self, count: int) -> None:
        """Waits for `count` more writes."""
        goal = self.count + count
        while self.count < goal and not self.over.is_set():
            await self._moved.wait()


class Shared:
    """What all of a run share. `up` is set while a server is there, `settled` once all has happened that is to happen meanwhile,
    for which writers go on; `shaken`: the server may now and then be unable to do its work.

    At the end `last` is the revision to which clients follow, and `final` what is there then, by resource.
    """

    def __init__(self) -> None:
        self.progress = Progress()
        self.up = asyncio.Event()
        self.settled = asyncio.Event()
        self.shaken = False
        self.last = 0
        self.final: dict[str, Sequence[Object]] = {}
        self._ticks = itertools.count(1)
        self._seen: dict[tuple[Key, int], Object] = {}

    def tick(self) -> int:
        return next(self._ticks)

    def same(self, resource: str, obj: dict[str, Any]) -> Object:
        """The object without its type; one and the same for all who saw the same, so that a recording is small."""
        obj.pop("apiVersion", None)
        obj.pop("kind", None)
        known = self._seen.setdefault((key_of(resource, obj), revision_of(obj)), obj)
        return known if known == obj else obj


class Wire:
    """To any of several servers, another one with each request. `access`: the URL of each, and how it is trusted."""

    def __init__(
        self, session: aiohttp.ClientSession, access: Sequence[tuple[str, ssl.SSLContext]], chance: random.Random
    ) -> None:
        self._session = session
        self._access = access
        self._chance = chance

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, dict[str, Any]]:
        """(status, the decoded answer). Raises Gone."""
        headers = {"Content-Type": content_type, "Accept": accept}
        content = None if body is None else orjson.dumps(body)
        url, context = self._chance.choice(self._access)
        with _gone():
            async with self._session.request(
                method, url + path, params=query, data=content, headers=headers, ssl=context
            ) as response:
                answer = await response.read()
                records.exchange(method, str(response.url), list(headers.items()), content, response.status, answer)
                return response.status, _decoded(response.status, answer)

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], accept: str, *, websocket: bool = False
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The events of a watch. Raises Refused, and Gone, also inside the block."""
        url, context = self._chance.choice(self._access)
        with _gone():
            if websocket:
                async with self._session.ws_connect(
                    url + path, params=query, headers={"Accept": accept}, origin=_ORIGIN, ssl=context, max_msg_size=_LIMIT
                ) as socket:
                    yield _messages(socket)
                return
            async with self._session.get(
                url + path, params=query, headers={"Accept": accept}, ssl=context, read_bufsize=_LIMIT
            ) as response:
                if response.status != 200:
                    raise Refused(_decoded(response.status, await response.read()))
                yield _lines(response.content)


def _decoded(status: int, content: bytes) -> dict[str, Any]:
    """The body as JSON. kube-apiserver's words as a proxy are plain text."""
    try:
        decoded: dict[str, Any] = orjson.loads(content)
    except orjson.JSONDecodeError:
        if status < 500:
            raise
        return {"code": status, "message": content.decode(errors="replace")}
    return decoded


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    async for line in content:
        yield orjson.loads(line)


async def _messages(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[dict[str, Any]]:
    while (message := await socket.receive(_SECONDS)).type is aiohttp.WSMsgType.TEXT:
        yield orjson.loads(message.data)
    if message.type is aiohttp.WSMsgType.ERROR:
        raise Gone(str(message.data))


@contextlib.contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except aiohttp.WSServerHandshakeError as error:  # of which the client keeps no body
        raise Refused({"code": error.status, "message": error.message}) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Gone(str(error)) from error


@contextlib.asynccontextmanager
async def connected(kubeconfigs: Sequence[Path], chance: random.Random, *, kept: bool = True) -> AsyncIterator[Wire]:
    """As many connections as are wanted, to the servers that wrote the kubeconfigs and to those that take their places.

    kept: else each request has a connection of its own.
    """
    access = [await asyncio.to_thread(_access, kubeconfig) for kubeconfig in kubeconfigs]
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)
    connector = aiohttp.TCPConnector(limit=0, force_close=not kept)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Wire(session, access, random.Random(chance.random()))


def _access(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile(suffix=".pem") as pair:
        pair.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return cluster["server"], context


def path_of(resource: str, namespace: str = "", name: str = "") -> str:
    return "/".join(filter(None, [f"/apis/{GROUP}", f"namespaces/{namespace}" * bool(namespace), resource, name]))
