"""Flow control: classifies requests and lets each wait for its turn where its priority level is full.

Long-running requests are exempt, but for watches, which count until they have begun. A request that does not wait costs a look-up
in a table: which flow a user's requests for a resource belong to is worked out once. The lane's requests, which have ended before
anything else happens, take no seat: they run while their level has seats, or else if their flow runs nothing, which is when they
would be next.
Source: k8s.io/apiserver pkg/server/filters/priority-and-fairness.go, pkg/util/flowcontrol/apf_controller.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial

from aggserver.authentication.user import UserInfo
from aggserver.endpoints.flow_control.dumps import levels_dump, queues_dump, requests_dump
from aggserver.endpoints.flow_control.levels import Flow, Level, Seats, Ticket
from aggserver.endpoints.flow_control.limits import limits, queuing
from aggserver.endpoints.flow_control.matching import CATCH_ALL, EXEMPT, Schema, in_order, schema
from aggserver.endpoints.flow_control.shuffle_sharding import deal, flow_hash
from aggserver.endpoints.flow_control.work import Extent, seats
from aggserver.endpoints.request import PLAIN_TEXT, AnyResponse, Filter, Handler, Request, Response, Shortened
from aggserver.endpoints.request_info import RequestInfo
from aggserver.meta.json_types import JSONMapping

__all__ = ["WAIT_BUCKETS", "FlowControl", "Waits", "too_many"]

_TOO_MANY = b"Too many requests, please try again later.\n"
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_MANDATORY = frozenset({EXEMPT, CATCH_ALL})
# Users, verbs and resources whose flow is known. Clients can make up namespaces and paths.
_KNOWN_FLOWS = 4096
# Seconds that a watch may wait to begin, and any other request at most; else a quarter of its time.
_WATCH_WAITS, _LONGEST_WAIT = 15.0, 60.0
# Seconds of upstream's histogram of waits.
WAIT_BUCKETS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)


def too_many(retry_after: int) -> Response:
    """The response to a request that is rejected."""
    return Response(429, _TOO_MANY, PLAIN_TEXT, [_NO_SNIFFING, (b"retry-after", b"%d" % retry_after)])


class Waits:
    """How long requests waited, by the bounds of WAIT_BUCKETS; the last count is of those beyond."""

    def __init__(self) -> None:
        self.counts = [0] * (len(WAIT_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(WAIT_BUCKETS, seconds)] += 1
        self.total += seconds


class FlowControl:
    """The priority levels of a server. total: its seats. random: an integer in [0, argument). extent: see `work.Extent`.
    clock: monotonic, in seconds.

    schemas, levels: FlowSchemas and PriorityLevelConfigurations to begin with, with `exempt` and `catch-all` among them.

    waits: by (level, FlowSchema, whether the request was served).
    """

    def __init__(
        self,
        total: int,
        schemas: Sequence[JSONMapping],
        levels: Sequence[JSONMapping],
        random: Callable[[int], int],
        extent: Extent,
        clock: Callable[[], float],
    ) -> None:
        self.levels: dict[str, Level] = {}
        self.waits: dict[tuple[str, str, bool], Waits] = {}
        self._total = total
        compiled = [schema(obj) for obj in schemas]
        self._mandatory = (
            [each for each in compiled if each.name in _MANDATORY],
            [obj for obj in levels if obj["metadata"]["name"] in _MANDATORY],
        )
        self._extent = extent
        self._clock = clock
        self._seats = Seats(random)
        self._schemas: Sequence[Schema] = ()
        self._flows: dict[tuple[str | tuple[str, ...], ...], Flow] = {}
        self.configure(compiled, levels)

    def configure(self, schemas: Iterable[Schema], levels: Iterable[JSONMapping]) -> None:
        """Take over all FlowSchemas and PriorityLevelConfigurations, which are valid.

        A FlowSchema whose level is missing is left out. A level that is missing is kept as long as it has requests. The objects
        called `exempt` and `catch-all` are always there.
        """
        specs = {obj["metadata"]["name"]: obj for obj in (*self._mandatory[1], *levels)}
        by_name = {each.name: each for each in (*self._mandatory[0], *schemas)}
        self._schemas = in_order(each for each in by_name.values() if each.level in specs)
        found = limits({name: obj["spec"] for name, obj in specs.items()}, self._total)
        self._seats.total = sum(each.nominal for each in found.values())
        for name, obj in specs.items():
            if name not in self.levels:
                self.levels[name] = Level(name, self._seats, exempt=obj["spec"]["type"] == "Exempt")
            self.levels[name].configure(obj["metadata"].get("uid", ""), found[name], queuing(obj["spec"]))
        for name in self.levels.keys() - specs.keys():
            level = self.levels[name]
            level.end()
            if level.is_idle:
                del self.levels[name]
        self._flows.clear()
        self._seats.dispatch(self._clock())

    def flow(self, user: UserInfo, info: RequestInfo) -> Flow:
        """The flow of a request."""
        key: tuple[str | tuple[str, ...], ...]
        if info.is_resource_request:
            key = (user.name, user.groups, info.verb, info.group, info.resource, info.subresource, info.namespace)
        else:
            key = (user.name, user.groups, info.verb, info.path)
        found = self._flows.get(key)
        if found is None:
            if len(self._flows) >= _KNOWN_FLOWS:
                self._flows.clear()
            found = self._flows[key] = self._classified(user, info)
        return found

    def _classified(self, user: UserInfo, info: RequestInfo) -> Flow:
        # As upstream, the last one takes what matches none: users without any group.
        of = next((each for each in self._schemas if each.matches(user, info)), self._schemas[-1])
        level = self.levels[of.level]
        hand: tuple[int, ...] = ()
        distinguisher = ""
        if level.queuing.queues:
            distinguisher = of.distinguisher(user, info)
            hand = deal(flow_hash(of.name, distinguisher), level.queuing.queues, level.queuing.hand)
        pairs = ((b"x-kubernetes-pf-flowschema-uid", of.uid), (b"x-kubernetes-pf-prioritylevel-uid", level.uid))
        headers = tuple((name, uid.encode()) for name, uid in pairs if uid)
        return Flow(of.name, level, level.counts_of(of.name), distinguisher, hand, headers)

    def dumps(self) -> dict[str, Callable[[], str]]:
        """The pages for debugging, by path."""
        pages: dict[str, Callable[[], str]] = {
            "dump_priority_levels": lambda: levels_dump(self.levels.values()),
            "dump_queues": lambda: queues_dump(self.levels.values()),
            "dump_requests": lambda: requests_dump(self.levels.values(), self._clock()),
        }
        return {f"/debug/api_priority_and_fairness/{name}": page for name, page in pages.items()}

    # --- the filter ---

    def filter(self, is_long_running: Callable[[Request], bool], count: Callable[[str, int], None]) -> Filter:
        """count: called with readOnly or mutating and the change of the requests of that kind that are served."""

        def wrap(next_handler: Handler) -> Handler:
            async def handler(request: Request) -> AnyResponse:
                info = request.info
                watching = info.verb == "watch"
                if is_long_running(request) and not watching:
                    return await next_handler(request)
                request.flow = flow = self.flow(request.user, info)
                level, now = flow.level, self._clock()
                width = 1 if level.exempt else seats(info, request.query, request.header(b"accept"), self._extent)
                ticket = level.arrive(flow.schema, flow.distinguisher, flow.hand, width, now)
                if ticket is None:
                    self._waited(flow, now, now, served=False)
                    return too_many(level.retry_after.reject(now))
                if ticket.waits and not await self._is_served(request, flow, ticket):
                    return too_many(level.retry_after.reject(self._clock()))
                if watching:
                    try:
                        return await next_handler(request)
                    finally:
                        level.finish(ticket, self._clock())
                kind = "mutating" if info.verb in _MUTATING else "readOnly"
                count(kind, 1)
                request.on_end.append(partial(self._end, ticket, partial(count, kind, -1)))
                return await next_handler(request)

            return handler

        return Shortened(wrap, self._at_once)

    def _at_once(self, next_handler: Handler) -> Handler:
        def handler(request: Request) -> Awaitable[AnyResponse]:
            request.flow = flow = self.flow(request.user, request.info)
            level = flow.level
            if level.has_room or level.passes_at_once(flow.hand):
                return next_handler(request)
            return _Waiting()

        return handler

    def _end(self, ticket: Ticket, then: Callable[[], None]) -> None:
        ticket.level.finish(ticket, self._clock())
        then()

    async def _is_served(self, request: Request, flow: Flow, ticket: Ticket) -> bool:
        """Wait until a request that waits may run. False if its time is over before. A client that has gone waits no longer."""
        loop = asyncio.get_running_loop()
        decided: asyncio.Future[str] = loop.create_future()
        ticket.run = partial(_decide, decided, "")
        allowed = _WATCH_WAITS
        if request.deadline < float("inf"):
            allowed = min((request.deadline - loop.time()) / 4, _LONGEST_WAIT)
        timer = loop.call_later(allowed, _decide, decided, "time-out")
        # A request with a body is not looked at: what is received here would be missing there.
        gone = asyncio.ensure_future(_gone(request, decided)) if request.method in ("GET", "HEAD") else None
        try:
            why = await decided
        except asyncio.CancelledError:
            why = "cancelled"
            raise
        finally:
            timer.cancel()
            if gone is not None:
                gone.cancel()
            now = self._clock()
            if ticket.waits:
                ticket.level.abandon(ticket, now, why)
            elif why:
                ticket.level.finish(ticket, now)  # it has got its seats in the same moment
            self._waited(flow, ticket.arrived, now, served=not why)
            if request.record is not None:
                request.record.queued_seconds += now - ticket.arrived
        return not why

    def _waited(self, flow: Flow, since: float, now: float, *, served: bool) -> None:
        key = (flow.level.name, flow.schema, served)
        if key not in self.waits:
            self.waits[key] = Waits()
        self.waits[key].observe(now - since)


def _decide(decided: asyncio.Future[str], why: str) -> None:
    if not decided.done():
        decided.set_result(why)


async def _gone(request: Request, decided: asyncio.Future[str]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    _decide(decided, "cancelled")


class _Waiting:
    """Waits for ever: what the lane ends."""

    def __await__(self) -> Generator[None, None, AnyResponse]:
        yield
        raise AssertionError("the lane goes on with no request that waits")
