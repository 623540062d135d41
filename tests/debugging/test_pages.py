"""The pages for debugging, through the filters of a server."""

from __future__ import annotations

import asyncio
import gzip
import threading

import pytest

from aggserver.debugging import memory, stacks
from aggserver.debugging.profile import Profile
from aggserver.debugging.sampler import PERIOD, Busy, Sampler
from aggserver.meta import codec
from aggserver.options import Options
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import ALICE, LocalServer

STATUSZ = "application/json;as=Statusz;g=config.k8s.io;v=v1beta1"


class Instant(Sampler):
    """Takes a profile at once, and notes what was asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.busy = False

    def take(self, stop, seconds):
        self.asked.append(seconds)
        if self.busy:
            raise Busy
        profile = Profile(PERIOD)
        profile.add("main", (), 2_000_000)
        return profile, 1, 2


@pytest.fixture
async def server():
    made = LocalServer()
    await made.start()
    made.engine.pages._sampler = Instant()
    yield made
    await made.stop()


async def test_statusz_as_text(server):
    server.clock.now += 3725
    answer = await server.client().get("/statusz")
    text = answer.body.decode()
    assert (answer.status, answer.header("content-type")) == (200, "text/plain; charset=utf-8")
    assert text.startswith("\naggserver statusz\nWarning: This endpoint is not meant to be machine parseable")
    assert "\nUp: 1 hr 02 min 05 sec\n" in text
    assert "\nEmulation version: 1.36\n" in text
    assert "/apis" not in text
    assert "/flagz" in text


async def test_statusz_as_an_object(server):
    server.clock.now += 60
    answer = await server.client().get("/statusz", headers={"Accept": STATUSZ})
    found = answer.json()
    assert (found["kind"], found["apiVersion"], found["metadata"]) == ("Statusz", "config.k8s.io/v1beta1", {"name": "aggserver"})
    assert found["uptimeSeconds"] == 60
    assert "/statusz" in found["paths"]
    old = await server.client().get("/statusz", headers={"Accept": STATUSZ.replace("v1beta1", "v1alpha1")})
    assert old.warnings == ['299 - "This version of the statusz endpoint is deprecated. Please use a newer version."']
    assert old.json()["apiVersion"] == "config.k8s.io/v1alpha1"


ACCEPT = {
    "anything": ("*/*", 200, "text/plain; charset=utf-8"),
    "text": ("text/plain", 200, "text/plain; charset=utf-8"),
    "yaml": (
        "application/yaml;as=Flagz;g=config.k8s.io;v=v1beta1",
        200,
        "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz",
    ),
    "the first that is offered": (
        "application/json, application/json;as=Flagz;g=config.k8s.io;v=v1beta1, text/plain",
        200,
        "application/json;g=config.k8s.io;v=v1beta1;as=Flagz",
    ),
    "no kind": ("application/json", 406, "application/json"),
    "another kind": (STATUSZ, 406, "application/json"),
    "a kind as text": ("text/plain;as=Flagz;g=config.k8s.io;v=v1beta1", 406, "application/json"),
    "protobuf": ("application/vnd.kubernetes.protobuf;as=Flagz;g=config.k8s.io;v=v1beta1", 406, "application/json"),
}


@pytest.mark.parametrize(("accept", "status", "content_type"), ACCEPT.values(), ids=ACCEPT)
async def test_forms_of_flagz(server, accept, status, content_type):
    answer = await server.client().get("/flagz", headers={"Accept": accept})
    assert (answer.status, answer.header("content-type")) == (status, content_type)
    if status == 406:
        named = "application/json, application/yaml, text/plain"
        assert answer.message == f"only the following media types are accepted: {named}"


async def test_flagz_has_all_flags(server):
    answer = await server.client().get("/flagz", headers={"Accept": "application/yaml;as=Flagz;g=config.k8s.io;v=v1beta1"})
    flags = codec.decode_yaml(answer.body)["flags"]
    assert flags["request-timeout"] == "60s"
    assert flags["profiling"] == "true"
    assert list(flags) == sorted(flags)


async def test_nobody_sees_them_without_a_right(server):
    for path in ("/statusz", "/flagz", "/debug/pprof/", "/debug/pprof/profile", "/debug/memory"):
        answer = await server.client(ALICE).get(path)
        assert (answer.status, path in answer.message) == (403, True)
    answer = await server.client(ALICE).put("/debug/flags/v", b"9", content_type="")
    assert answer.message == 'forbidden: User "alice" cannot put path "/debug/flags/v"'


PROFILES = {
    "no seconds": ("", [30], 200, b""),
    "seconds": ("?seconds=7", [7], 200, b""),
    "not a number": ("?seconds=x", [30], 200, b""),
    "zero": ("?seconds=0", [30], 200, b""),
    "too long": ("?seconds=56", [], 400, b"profile duration exceeds server's request timeout\n"),
    "far too long": ("?seconds=999999999", [], 400, b"profile duration exceeds server's request timeout\n"),
}


@pytest.mark.parametrize(("query", "asked", "status", "body"), PROFILES.values(), ids=PROFILES)
async def test_profile(server, query, asked, status, body):
    answer = await server.client().get(f"/debug/pprof/profile{query}")
    assert (server.engine.pages._sampler.asked, answer.status) == (asked, status)
    if body:
        assert answer.body == body
    else:
        assert b"nanoseconds" in gzip.decompress(answer.body)
        assert answer.header("content-disposition") == 'attachment; filename="profile"'


async def test_profile_as_collapsed_stacks(server):
    answer = await server.client().get("/debug/pprof/profile?seconds=1&debug=1")
    assert answer.body == b"main;(stacks beyond the limit) 2000\n"


async def test_one_profile_at_a_time(server):
    server.engine.pages._sampler.busy = True
    answer = await server.client().get("/debug/pprof/profile")
    assert (answer.status, answer.body) == (500, b"Could not enable CPU profiling: cpu profiling already in use\n")


async def test_a_profile_ends_with_its_client(server):
    begun, stopped = threading.Event(), []

    class Waiting(Sampler):
        def take(self, stop, seconds):
            begun.set()
            stopped.append(stop.wait(30))
            return Profile(PERIOD), 1, 2

    server.engine.pages._sampler = Waiting()
    exchange = server.client().send("GET", "/debug/pprof/profile?seconds=30")
    await asyncio.to_thread(begun.wait)
    exchange.disconnect()
    await exchange.task
    assert stopped == [True]


async def test_without_profiling():
    server = LocalServer()
    await server.start()
    options = Options(command="dev", profiling=False)
    pages = server.engine.chain(None, None, options)["debugging"]
    assert (await pages(_nothing)(Asked("/debug/pprof/profile"))) == "the next handler"
    assert (await pages(_nothing)(Asked("/debug/flags/v"))) == "the next handler"
    await server.stop()


class Asked:
    def __init__(self, path):
        self.path = path
        self.info = self
        self.is_resource_request = False


async def _nothing(request):
    return "the next handler"


async def test_the_indexes(server):
    assert (await server.client().get("/debug/pprof")).header("location") == "/debug/pprof/"
    assert b"goroutine" in (await server.client().get("/debug/pprof/")).body
    assert b"<tr>v<br>" in (await server.client().get("/debug/flags")).body


async def test_what_threads_and_tasks_are_at(server):
    async def waits_for_what_never_comes():
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(waits_for_what_never_comes()) for _ in range(3)]
    await asyncio.sleep(0)
    text = (await server.client().get("/debug/pprof/goroutine?debug=1")).body.decode()
    assert "\nthread MainThread\n" in text
    entry = text.partition("\n3 @\n")[2].partition("\n\n")[0]
    # The innermost first, as in Go's.
    assert entry.index("Event.wait") < entry.index("waits_for_what_never_comes")
    for task in tasks:
        task.cancel()


async def test_memory(server):
    server.serve(CRONTABS)
    await server.client().post(CRONTABS_PATH, crontab("one"))
    await server.client().post(CRONTABS_PATH, crontab("two"))
    server.engine.pages.counts["connections"] = lambda: 7
    async with server.client().watch(f"{CRONTABS_PATH}?watch=true"):
        found = (await server.client().get("/debug/memory")).json()
    (cache,) = [each for each in found["caches"] if each["resource"].endswith("stable.example.com/crontabs")]
    assert (cache["objects"], cache["watches"]["count"]) == (2, 1)
    assert 300 < cache["bytes"] < 3000
    assert found["counts"]["connections"] == 7
    assert found["queues"]["objects"] == {"waiting": 0, "bytes": 0}


ALLOCATIONS = {
    "no duration": ("5", 400, b'time: missing unit in duration "5"\n'),
    "nothing": ("0s", 400, b"allocations: must be more than 0 and at most 55s\n"),
    "too long": ("2m", 400, b"allocations: must be more than 0 and at most 55s\n"),
}


@pytest.mark.parametrize(("given", "status", "body"), ALLOCATIONS.values(), ids=ALLOCATIONS)
async def test_wrong_times_of_allocations(server, given, status, body):
    answer = await server.client().get(f"/debug/memory?allocations={given}")
    assert (answer.status, answer.body) == (status, body)


def test_allocations():
    class Allocating(threading.Event):
        def wait(self, timeout=None):
            self.held = [bytes(1000) for _ in range(1000)]
            return True

    stop = Allocating()
    text = memory.allocations(stop, 5)
    line = next(line for line in text.splitlines() if __file__ in line)
    assert int(line.split()[0]) > 1_000_000


VERBOSITY = {
    "number": ("PUT", b"4", 200, b"successfully set klog.logging.verbosity to 4\n", ["4"]),
    "word": ("PUT", b"x", 400, b"wrong\n", ["x"]),
    "read": ("GET", None, 406, b"unsupported http method\n", []),
}


@pytest.mark.parametrize(("method", "given", "status", "body", "told"), VERBOSITY.values(), ids=VERBOSITY)
async def test_verbosity(server, method, given, status, body, told):
    seen = []

    def take(text):
        seen.append(text)
        if text == "x":
            raise ValueError("wrong")

    server.engine.pages._set_verbosity = take
    answer = await server.client().request(method, "/debug/flags/v", given, content_type="")
    assert (answer.status, answer.body, seen) == (status, body, told)


def test_reports_have_no_values():
    """What a variable holds may be a token."""

    async def run(token):
        return stacks.report()

    assert "very-secret" not in asyncio.run(run("very-secret"))
