"""What is logged of the libraries, and of what comes from outside: nobody but the server writes a line of its log."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aggserver
from aggserver.app import aggregated
from aggserver.app.logs import log_to, log_unhandled, set_verbosity
from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.endpoints import request_info
from aggserver.endpoints.request import Request, StreamResponse, begin
from aggserver.options import parse
from aggserver.resources.calls import Calls
from aggserver.resources.errors import AnswerError
from aggserver.server.serving import Server
from tests.fakes.clock import until
from tests.fakes.server import LocalServer


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, library = logging.getLogger(), logging.getLogger("asyncio")
    before = root.level, root.handlers[:], library.level, library.filters[:]
    stream = io.StringIO()
    # `basicConfig` closes the handlers that it replaces.
    root.handlers[:] = []
    log_to(stream, "info", {})
    yield stream
    root.level, root.handlers[:], library.level, library.filters[:] = before


CLOSED = "unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed"

# name: (message, error, whether it is logged)
RECORDS = {
    "a call that was given up during the handshake": ("Fatal error on SSL protocol", RuntimeError(CLOSED), False),
    "another error of a handshake": ("Fatal error on SSL protocol", RuntimeError("unexpected"), True),
    "the same error elsewhere": ("Task exception was never retrieved", RuntimeError(CLOSED), True),
    "no error": ("Fatal error on SSL protocol", None, True),
}


@pytest.mark.parametrize("name", RECORDS)
def test_errors_of_connections(stream: io.StringIO, name: str) -> None:
    message, error, logged = RECORDS[name]
    logging.getLogger("asyncio").error(message, exc_info=error)
    assert (message in stream.getvalue()) is logged


# --- what comes from outside ---

FORGED = "2026-01-02 03:04:05,678 INFO    aggserver: all is well"
# name: (text from outside, what is logged of it)
TEXTS = {
    "end of line": (f"a\n{FORGED}", rf"a\n{FORGED}"),
    "return": (f"a\r{FORGED}", rf"a\r{FORGED}"),
    "both": (f"a\r\n{FORGED}\n", rf"a\r\n{FORGED}\n"),
    "other ends of lines": ("a\v\f\x1c\x85\u2028\u2029b", r"a\x0b\x0c\x1c\x85\u2028\u2029b"),
    "terminal": ("\x1b[2J\x1b]0;title\x07\x08\x9b31m", r"\x1b[2J\x1b]0;title\x07\x08\x9b31m"),
    "nul and tab": ("a\0\tb", r"a\x00\tb"),
    "direction": ("a\u202egpj.exe\u2066", r"a\u202egpj.exe\u2066"),
    "half of a surrogate": ("a\udc80b", r"a\udc80b"),
    "other scripts": ("grün 名前 😀", "grün 名前 😀"),
    "placeholders": ("%s %(name)s {} \\n", "%s %(name)s {} \\n"),
    "long": ("x" * 20_000 + "\n", "x" * 4096 + "... 20001 characters ..." + "x" * 4095 + r"\n"),
}


def lines_of(text: str) -> list[str]:
    """The records of a log, each without its time: no line of it is anybody else's, and nothing in it is for a terminal."""
    lines = text.split("\n")
    assert lines.pop() == ""
    assert all(line.isprintable() for line in lines)
    own = [line for line in lines if not line.startswith("    ")]
    assert all(re.match(r"[0-9-]{10} [0-9:,]{12} (INFO   |ERROR  |CRITICAL) ", line) for line in own)
    return [line[24:] for line in own]


@pytest.mark.parametrize("name", TEXTS)
def test_messages(stream: io.StringIO, name: str) -> None:
    text, logged = TEXTS[name]
    log = logging.getLogger("aggserver.requests")
    log.info("told %s twice: %r", text, 1)
    if "%" not in text:
        log.error(f"told {text}")
    lines = lines_of(stream.getvalue())
    if name == "long":
        assert lines[0].endswith(r"x\n twice: 1")
        return
    assert lines[0] == f"INFO    aggserver.requests: told {logged} twice: 1"
    assert len(lines) == (1 if "%" in text else 2)


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def while_handling(error: BaseException, then: BaseException) -> BaseException:
    try:
        try:
            raise error
        except BaseException:
            raise then  # noqa: B904 - the context is what is tested
    except BaseException as caught:
        return caught


def noted(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return raised(error)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_exceptions(stream: io.StringIO, name: str) -> None:
    text, logged = TEXTS[name]
    errors = [
        raised(ValueError(text)),
        raised(ValueError("a"), cause=raised(ValueError(text))),
        while_handling(ValueError(text), ValueError("a")),
        raised(ExceptionGroup("several", [ValueError("a"), raised(ValueError(text))])),
        noted(ValueError("a"), text),
    ]
    for error in errors:
        logging.getLogger("aggserver").error("failed", exc_info=error)
    written = stream.getvalue()
    assert lines_of(written) == ["ERROR   aggserver: failed"] * len(errors)
    assert written.count(f"ValueError: {logged}\n") == len(errors) - 1
    assert f"    {logged}\n" in written


def test_a_traceback_is_readable(stream: io.StringIO) -> None:
    error = raised(ExceptionGroup("several", [raised(KeyError("b"), cause=raised(Unprintable())), ValueError()]))
    logging.getLogger("aggserver").error("failed", exc_info=error)
    file = re.escape(__file__)
    trace = rf'Traceback \(most recent call last\):\n +File "{file}", line \d+, in raised\n +raise error from cause\n'
    expected = (
        rf"    {trace}    ExceptionGroup: several \(2 sub-exceptions\)\n"
        rf"        1 of 2:\n        {trace}        {__name__}.Unprintable: \(its text can't be made\)\n    *\n"
        rf"        The above exception was the direct cause of the following exception:\n    *\n"
        rf"        {trace}        KeyError: 'b'\n"
        rf"        2 of 2:\n        ValueError\n"
    )
    assert re.fullmatch(expected, stream.getvalue().partition("\n")[2])


def _plain(request: object) -> None:
    raise ValueError("mine")


async def _async(request: object) -> None:
    await asyncio.sleep(0)
    raise ValueError("mine")


def _generator(request: object) -> Iterator[int]:
    yield 1
    raise ValueError("mine")


@pytest.mark.parametrize("function", [_plain, _async, _generator])
async def test_a_traceback_begins_at_the_function_of_a_user(stream: io.StringIO, function: Any) -> None:
    calls = Calls("app", 1)
    try:
        await calls.read(function, None, seconds=60)
    except ValueError as error:
        logging.getLogger("aggserver").error("failed", exc_info=error)
    finally:
        calls.close()
    lines = stream.getvalue().splitlines()
    assert lines[2].startswith(f'      File "{__file__}", line ')
    assert lines[2].endswith(f"in {function.__name__}")
    assert lines[-1] == "    ValueError: mine"


def test_an_error_whose_text_says_all_has_no_traceback(stream: io.StringIO) -> None:
    error = raised(AnswerError("shop.act returned a Cat"), cause=raised(ValueError()))
    logging.getLogger("aggserver").error("failed", exc_info=error)
    assert stream.getvalue().partition("\n")[2] == "    shop.act returned a Cat\n"


def test_exceptions_that_lead_to_each_other(stream: io.StringIO) -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    logging.getLogger("aggserver").error("failed", exc_info=first)
    assert stream.getvalue().count("ValueError: ") == 2


def test_arguments_that_do_not_fit(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    (ours,) = (handler for handler in logging.getLogger().handlers if getattr(handler, "stream", None) is stream)
    ours.handle(logging.LogRecord("aggserver", logging.ERROR, __file__, 1, "%d", (f"a\n{FORGED}",), None))
    assert lines_of(stream.getvalue()) == [rf"ERROR   aggserver: '%d' ('a\n{FORGED}',)"]
    assert capsys.readouterr().err == ""


def test_what_another_formatter_has_kept(stream: io.StringIO) -> None:
    record = logging.LogRecord("aggserver", logging.ERROR, __file__, 1, "failed", None, (ValueError, ValueError("a"), None))
    record.exc_text, record.message = f"ValueError: a\n{FORGED}", FORGED
    logging.getLogger().handle(record)
    assert lines_of(stream.getvalue()) == ["ERROR   aggserver: failed"]
    assert FORGED not in stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_our_own(stream: io.StringIO) -> None:
    terminal = Terminal()
    log_to(terminal, "info", {})
    logging.getLogger("aggserver").info("a\x1b[31m\n%s", FORGED)
    expected = rf"\x1b\[2m[-:, 0-9]+\x1b\[0m \x1b\[32mINFO   \x1b\[0m \x1b\[2maggserver:\x1b\[0m a\\x1b\[31m\\n{FORGED}\n"
    assert re.fullmatch(expected, terminal.getvalue())


@pytest.fixture
def hooks() -> Iterator[None]:
    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    log_unhandled()
    yield
    sys.excepthook, threading.excepthook, sys.unraisablehook = before


@pytest.mark.usefixtures("hooks")
def test_what_nobody_handles(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError(f"a\n{FORGED}")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()

    class Failing:
        def __del__(self) -> None:
            fail()

    Failing()
    error = raised(ValueError(f"a\n{FORGED}"))
    sys.excepthook(type(error), error, error.__traceback__)
    assert [line.partition(" ")[0] for line in lines_of(stream.getvalue())] == ["ERROR", "ERROR", "CRITICAL"]
    assert stream.getvalue().count(rf"ValueError: a\n{FORGED}") == 3
    assert capsys.readouterr().err == ""


_KUBECONFIG = """
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


async def test_the_first_line_of_a_server_in_a_cluster_is_one_of_the_log(
    stream: io.StringIO, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output of a pod is one log. The cluster is away, which keeps no server from listening."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG)
    where = ["--kubeconfig", str(kubeconfig), "--cert-dir", str(tmp_path), "--definitions", str(tmp_path), "--data", ":memory:"]
    servers: list[Server] = []
    options = parse(["serve", *where, "--bind-address", "127.0.0.1", "--secure-port", "0"], {})
    serving = asyncio.create_task(aggregated.run(options, (), servers.append))
    await until(lambda: "listens on" in stream.getvalue() or serving.done())
    servers[0].request_stop()
    assert await serving == 0
    assert lines_of(stream.getvalue().splitlines(keepends=True)[0])[0].startswith(
        "INFO    aggserver: aggserver listens on https://"
    )
    assert capsys.readouterr().out == ""


# --- requests ---

# name: what a request has of its own, each with the forged line
REQUESTS: dict[str, dict[str, Any]] = {
    "path": {"path": f"/a\n{FORGED}"},
    "name of an object": {"path": f"/apis/g/v1/namespaces/default/things/a\n{FORGED}"},
    "audit ID": {"headers": {"Audit-ID": f"a\n{FORGED}"}},
    "user agent": {"headers": {"User-Agent": f"a\n{FORGED}"}},
    "user": {"user": UserInfo(f"a\n{FORGED}", groups=(PRIVILEGED_GROUP,))},
    "body": {"body": f"a\n{FORGED}".encode()},
}


class Broken:
    """A stream that fails with this text after its first chunk."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def __aiter__(self) -> Any:
        yield b"a"
        raise ZeroDivisionError(self._text)

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("streams", [False, True])
async def test_requests_that_fail(stream: io.StringIO, server: LocalServer, name: str, streams: bool) -> None:
    given = {"path": "/a", "headers": {}, "user": UserInfo("admin", groups=(PRIVILEGED_GROUP,)), "body": b"{}", **REQUESTS[name]}

    async def handler(request: Request) -> Any:
        # As an error that has it all in its text.
        body = (await request.body()).decode()
        text = f"{request.path} {request.user.name} {request.header(b'user-agent')} {body}"
        if streams:
            return StreamResponse(Broken(text))
        raise ZeroDivisionError(text)

    server.handler = handler
    client = server.client().as_user(given["user"])
    await client.request("POST", given["path"], given["body"], headers=given["headers"])
    written = stream.getvalue()
    (line,) = lines_of(written)
    assert line.startswith("ERROR   aggserver.requests: stream failed: /a" if streams else "ERROR   aggserver.requests: request")
    assert FORGED in written
    assert "ZeroDivisionError: /a" in written


async def test_a_response_that_is_broken_off(stream: io.StringIO, server: LocalServer) -> None:
    async def handler(request: Request) -> Any:
        request.begun = True
        raise TimeoutError

    server.handler = handler
    exchange = server.client().send("GET", f"/a\n{FORGED}")
    await exchange.task
    assert lines_of(stream.getvalue())


# --- the sources ---

# Modules that write to the standard error or output themselves: the commands, for those who run them.
WRITERS = {
    "cli.py",
    "app/reloading.py",
    "commands/adopt/command.py",
    "app/logs.py",
    "app/processes.py",
    "commands/envtest/etcd.py",
}
# What writes by itself, or makes something that does.
RAW = {
    "print",
    "print_exc",
    "print_exception",
    "print_stack",
    "StreamHandler",
    "FileHandler",
    "Formatter",
    "basicConfig",
    "stderr",
}


def test_nothing_else_writes() -> None:
    package = Path(aggserver.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr in RAW and isinstance(node.value, ast.Name))
        or (isinstance(node, ast.Name) and node.id in RAW)
    }
    assert found - WRITERS == {"testing/server.py"}, "it reads what a child process has written"


@pytest.fixture
def levels() -> Iterator[io.StringIO]:
    """A stream, and all levels as before afterwards."""
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    known = {name: logger.level for name, logger in root.manager.loggerDict.items() if isinstance(logger, logging.Logger)}
    root.handlers[:] = []
    yield io.StringIO()
    root.level, root.handlers[:] = before
    for name, logger in root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger):
            logger.setLevel(known.get(name, logging.NOTSET))


# (--log-level, -v, --vmodule, set at run time, what of the lines is logged)
LEVELS: dict[str, tuple[str, int, dict[str, int], str, str]] = {
    "default": ("info", 0, {}, "", "info"),
    "level debug": ("debug", 0, {}, "", "debug cacher requests info"),
    "two is not for requests": ("info", 2, {}, "", "info"),
    "three is": ("info", 3, {}, "", "requests info"),
    "four is for all": ("info", 4, {}, "", "debug cacher requests info"),
    "warnings alone": ("warning", 0, {}, "", ""),
    "a module": ("info", 0, {"cach*": 4}, "", "cacher info"),
    "a module, less": ("info", 0, {"cach*": 3}, "", "info"),
    "the first pattern counts": ("info", 4, {"cacher": 0, "cach*": 4}, "", "debug requests info"),
    "requests as a module": ("info", 0, {"requests": 3}, "", "requests info"),
    "more at run time": ("info", 0, {}, "4", "debug cacher requests info"),
    "less at run time": ("info", 4, {}, "0", "info"),
    "modules stay": ("info", 4, {"cacher": 4}, "1", "cacher info"),
    "not below the level": ("warning", 4, {}, "0", ""),
}


@pytest.mark.parametrize("name", LEVELS)
def test_levels(levels: io.StringIO, name: str) -> None:
    level, verbosity, modules, later, logged = LEVELS[name]
    log_to(levels, level, {}, verbosity=verbosity, modules=modules)
    if later:
        set_verbosity(later)
    logging.getLogger("aggserver.x").debug("debug")
    logging.getLogger("aggserver.storage.cacher").debug("cacher")
    logging.getLogger("aggserver.requests").debug("requests")
    logging.getLogger("aggserver.x").info("info")
    assert [line.split()[-1] for line in levels.getvalue().splitlines()] == logged.split()


def test_a_pattern_for_no_module_is_named(levels: io.StringIO) -> None:
    log_to(levels, "info", {}, modules={"cacher": 4, "no-such*": 4})
    (line,) = levels.getvalue().splitlines()
    assert line.endswith("--vmodule: no module has the name no-such*, which is that of its file without .py")


WRONG_NUMBERS = {
    "x": 'strconv.ParseUint: parsing "x": invalid syntax',
    "": 'strconv.ParseUint: parsing "": invalid syntax',
    "-1": 'strconv.ParseUint: parsing "-1": invalid syntax',
    "4294967296": 'strconv.ParseUint: parsing "4294967296": value out of range',
    "9" * 1000: f'strconv.ParseUint: parsing "{"9" * 1000}": value out of range',
}


@pytest.mark.parametrize("text", WRONG_NUMBERS, ids=range(len(WRONG_NUMBERS)))
def test_wrong_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="strconv") as error:
        set_verbosity(text)
    assert str(error.value) == WRONG_NUMBERS[text]


def test_json(levels: io.StringIO) -> None:
    log_to(levels, "info", {}, form="json", verbosity=4)
    log = logging.getLogger("aggserver.x")
    log.info("one %s", "line\nand \u202e more")
    log.debug("detail")
    logging.getLogger("aggserver.requests").debug("a request")
    log.warning("careful")
    try:
        raise ValueError("wrong\x1b[0m")
    except ValueError as error:
        log.exception("failed", exc_info=error)
    text = levels.getvalue()
    assert text.isascii()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["msg"] for line in lines] == ["one line\nand \u202e more", "detail", "a request", "careful", "failed"]
    assert [line.get("v") for line in lines] == [0, 4, 3, 0, None]
    assert [line["level"] for line in lines] == ["info", "debug", "debug", "warning", "error"]
    assert {line["caller"].partition(":")[0] for line in lines} == {"app/test_logs.py"}
    assert all(1.7e12 < line["ts"] < 1e13 for line in lines)
    assert lines[-1]["err"] == "wrong\x1b[0m"
    assert "Traceback" in lines[-1]["stacktrace"]


def _request(path: str) -> Request:
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "http_version": "2"}
    return Request(scope, None)  # type: ignore[arg-type]


async def test_a_line_of_a_request_names_it(levels: io.StringIO) -> None:
    log = logging.getLogger("aggserver.x")

    async def work(path: str) -> asyncio.Task[None]:
        request = _request(path)
        in_progress = begin(request)
        log.info("early")
        request.audit_id = 'id "1"\n'
        request.info = request_info.parse("GET", path, {})
        log.info("of it")
        await asyncio.to_thread(log.info, "in a thread")
        later = asyncio.create_task(background())
        await asyncio.sleep(0)
        in_progress.request = None
        return later

    async def background() -> None:
        log.info("begun by it")
        await go_on.wait()
        log.info("after it")

    go_on = asyncio.Event()
    log_to(levels, "info", {}, form="json")
    later = await asyncio.create_task(work("/apis/stable.example.com/v1/namespaces/a/crontabs/b"))
    go_on.set()
    await later
    lines = [json.loads(line) for line in levels.getvalue().splitlines()]
    keys = {"audit-ID": 'id "1"\n', "verb": "get", "resource": "crontabs.stable.example.com"}
    found = [{key: line[key] for key in ("audit-ID", "verb", "resource", "path") if key in line} for line in lines]
    assert found == [{"audit-ID": ""}, keys, keys, keys, {}]


async def test_a_line_of_text_of_a_request(levels: io.StringIO) -> None:
    log_to(levels, "info", {})

    async def work() -> None:
        request = _request("/metrics")
        request.audit_id = "1\n2"
        request.info = request_info.parse("GET", "/metrics", {})
        begin(request)
        logging.getLogger("aggserver.x").info("of it")

    await asyncio.create_task(work())
    assert levels.getvalue().endswith('of it audit-ID="1\\n2" verb="get" path="/metrics"\n')
