"""The paths for debugging, as a filter behind authorization, which decides on each as on any path that is no resource.

    /statusz, /flagz             what the process is, and its flags
    /debug/pprof/                an index
    /debug/pprof/profile         a sampled profile; ?seconds=30, ?debug=1 for collapsed stacks
    /debug/pprof/goroutine       what threads and tasks are at
    /debug/memory                what is held, by resource; ?allocations=10s traces allocations for so long
    /debug/flags/v               PUT of a number sets the verbosity of the log
    /debug/api_priority_and_fairness/dump_...   what runs and waits (`endpoints/flow_control/dumps.py`), also without --profiling

Those below /debug are served with --profiling alone. Source: k8s.io/apiserver pkg/server/routes/{profiling,flags}.go, Go's
net/http/pprof, v0.36.3.
"""

from __future__ import annotations

import asyncio
import json
import platform
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from aggserver import workers
from aggserver.debugging import memory, stacks, zpages
from aggserver.debugging.sampler import Busy, Sampler
from aggserver.endpoints.request import JSON, PLAIN_TEXT, AnyResponse, Filter, Handler, Request, Response, Shortened
from aggserver.meta import duration
from aggserver.registry.environment import Environment

__all__ = ["Pages"]

T = TypeVar("T")

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_IS_ERROR = (b"x-go-pprof", b"1")
_DEFAULT_SECONDS = 30
# Seconds that are left of a request's time to make and send its response.
_TO_SEND = 5.0
_INDEX = b"""<html>
<head>
<title>/debug/pprof/</title>
</head>
<body>
/debug/pprof/<br>
<ul>
<li><a href="profile?seconds=10">profile</a>: what the CPU was used for, for go tool pprof; with debug=1 as collapsed stacks</li>
<li><a href="goroutine?debug=1">goroutine</a>: what threads and tasks are at</li>
<li><a href="/debug/memory">memory</a>: what is held, by resource; with allocations=10s where memory was allocated meanwhile</li>
</ul>
</body>
</html>
"""
_FLAGS_INDEX = b"""<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""
_HTML = b"text/html; charset=utf-8"


class Pages:
    """The pages of one server.

    paths: all that the index lists. version: of the server; emulated: of Kubernetes. set_verbosity: of the log; raises ValueError
    with what is wrong. counts: further numbers of `/debug/memory`, by name; others may add theirs.
    """

    def __init__(
        self,
        environment: Environment,
        paths: Callable[[], Iterable[str]],
        version: str,
        emulated: str,
        set_verbosity: Callable[[str], None],
        sampler: Sampler | None = None,
    ) -> None:
        self._environment = environment
        self._paths = paths
        self._version = version
        self._emulated = emulated
        self._set_verbosity = set_verbosity
        self._sampler = sampler or Sampler()
        self._started = environment.clock()
        self.counts: dict[str, Callable[[], int]] = {}

    def filter(
        self, flags: Mapping[str, str], texts: Mapping[str, Callable[[], str]], *, profiling: bool, timeout_seconds: float
    ) -> Filter:
        """flags: of the process, without credentials. texts: make further pages, by path. profiling: whether the others below
        /debug are served. timeout_seconds: of a request, which a profile must not exceed.
        """
        longest = timeout_seconds - _TO_SEND

        async def show_statusz(request: Request) -> Response:
            return zpages.statusz(
                request,
                started=self._started,
                now=self._environment.clock(),
                version=self._version,
                emulated=self._emulated,
                python=f"python{platform.python_version()}",
                paths=self._paths(),
            )

        async def show_flagz(request: Request) -> Response:
            return zpages.flagz(request, flags)

        async def profile(request: Request) -> Response:
            return await self._profile(request, longest)

        async def memory_of(request: Request) -> Response:
            return await self._memory(request, longest)

        pages: dict[str, Handler] = {"/statusz": show_statusz, "/flagz": show_flagz}
        pages |= {path: _text(make) for path, make in texts.items()}
        if profiling:
            pages |= {
                "/debug/pprof": _redirect,
                "/debug/pprof/": _index,
                "/debug/pprof/profile": profile,
                "/debug/pprof/goroutine": _goroutine,
                "/debug/memory": memory_of,
                "/debug/flags": _flags_index,
                "/debug/flags/": _flags_index,
                "/debug/flags/v": self._verbosity,
            }

        def wrap(next_handler: Handler) -> Handler:
            async def handler(request: Request) -> AnyResponse:
                if request.info.is_resource_request:
                    return await next_handler(request)
                return await pages.get(request.path, next_handler)(request)

            return handler

        # What the lane takes is a resource.
        return Shortened(wrap, lambda next_handler: next_handler)

    async def _profile(self, request: Request, longest: float) -> Response:
        given = request.query.get("seconds", "")
        seconds = int(given) if given.isdecimal() and given.isascii() and len(given) < 10 else 0
        seconds = seconds or _DEFAULT_SECONDS
        if seconds > longest:
            return _failure(400, "profile duration exceeds server's request timeout")
        try:
            found, began, took = await _in_thread(request, lambda stop: self._sampler.take(stop, seconds))
        except Busy:
            return _failure(500, "Could not enable CPU profiling: cpu profiling already in use")
        if request.query.get("debug", "0") not in ("", "0"):
            return Response(200, "".join(found.collapsed()).encode("utf-8", "replace"), PLAIN_TEXT, [_NO_SNIFFING])
        body = await asyncio.to_thread(found.pprof, began, took)
        attachment = (b"content-disposition", b'attachment; filename="profile"')
        return Response(200, body, b"application/octet-stream", [attachment, _NO_SNIFFING])

    async def _memory(self, request: Request, longest: float) -> Response:
        if given := request.query.get("allocations", ""):
            try:
                seconds = duration.parse(given)
            except ValueError as error:
                return _failure(400, str(error))
            if not 0 < seconds <= longest:
                return _failure(400, f"allocations: must be more than 0 and at most {longest:g}s")
            try:
                text = await _in_thread(request, lambda stop: memory.allocations(stop, seconds))
            except Busy:
                return _failure(500, "allocations are being traced already")
            return Response(200, text.encode("utf-8", "replace"), PLAIN_TEXT, [_NO_SNIFFING])
        found = await memory.report(self._environment, workers.pools(), self.counts)
        return Response(200, json.dumps(found, indent=2).encode() + b"\n", JSON)

    async def _verbosity(self, request: Request) -> Response:
        if request.method != "PUT":
            return _plain(406, "unsupported http method")
        given = (await request.body(1024)).decode("utf-8", "replace")
        try:
            self._set_verbosity(given)
        except ValueError as error:
            return _plain(400, str(error))
        return _plain(200, f"successfully set klog.logging.verbosity to {given}")


async def _in_thread(request: Request, take: Callable[[threading.Event], T]) -> T:
    """Call it in a thread of its own, with an event that is set when the client is gone or the request's time is over."""
    stop = threading.Event()
    gone = asyncio.ensure_future(_stop_when_gone(request, stop))
    try:
        return await asyncio.to_thread(take, stop)
    finally:
        stop.set()
        gone.cancel()


async def _stop_when_gone(request: Request, stop: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    stop.set()


def _text(make: Callable[[], str]) -> Handler:
    async def show(request: Request) -> Response:
        return Response(200, make().encode("utf-8", "replace"), PLAIN_TEXT)

    return show


async def _redirect(request: Request) -> Response:
    return Response(302, b"", b"", [(b"location", b"/debug/pprof/")])


async def _index(request: Request) -> Response:
    return Response(200, _INDEX, _HTML, [_NO_SNIFFING])


async def _flags_index(request: Request) -> Response:
    return Response(200, _FLAGS_INDEX, _HTML)


async def _goroutine(request: Request) -> Response:
    return Response(200, stacks.report().encode("utf-8", "replace"), PLAIN_TEXT, [_NO_SNIFFING])


def _failure(status: int, text: str) -> Response:
    return Response(status, text.encode() + b"\n", PLAIN_TEXT, [_NO_SNIFFING, _IS_ERROR])


def _plain(status: int, text: str) -> Response:
    return Response(status, text.encode("utf-8", "replace") + b"\n", b"text/plain", [_NO_SNIFFING])
