"""What is logged of the libraries, and of what comes from outside: nobody but the server writes a line of its log."""

from __future__ import annotations

import ast
import asyncio
import io
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
from aggserver.app.logs import log_to, log_unhandled
from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.endpoints.request import Request, StreamResponse
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
