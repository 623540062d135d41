"""The private names of libraries that the server uses, of each library in one module only. They may change with any release: then
the test of that name fails, before a connection does.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import h11
import pytest
from hypercorn.protocol.h11 import H11Protocol
from jh2 import connection as jh2_connection
from jh2.config import H2Configuration
from jh2.connection import H2Connection
from jh2.frame_buffer import FrameBuffer

PACKAGE = Path(__file__).parents[2] / "aggserver" / "server"


def method(owner: Any, name: str, *parameters: str) -> Callable[[], bool]:
    """That `owner` has a function of this name with these parameters, `self` left out."""

    def there() -> bool:
        given = inspect.signature(getattr(owner, name)).parameters
        return [each for each in given if each != "self"] == list(parameters)

    return there


def has(make: Callable[[], object], name: str, kind: type) -> Callable[[], bool]:
    return lambda: isinstance(getattr(make(), name), kind)


def _connection() -> Any:
    return H2Connection(H2Configuration(client_side=False))


def _frames() -> Any:
    return FrameBuffer(server=True)


def _tells_the_chain() -> bool:
    """Public since Python 3.13."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of: Any = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    return callable(getattr(of, "get_unverified_chain", None) or of._sslobj.get_unverified_chain)


# Module of aggserver.server -> private name that it uses of a library, or overrides -> whether the library has it as it is used.
NAMES: dict[str, dict[str, Callable[[], bool]]] = {
    "http1": {
        "_cstate": lambda: h11.Connection(h11.SERVER)._cstate.pending_switch_proposals == set(),
        "_handle_events": method(H11Protocol, "_handle_events"),
        "_send_h11_event": method(H11Protocol, "_send_h11_event", "event"),
    },
    "http2.protocol": {
        "_closed_streams": has(_connection, "_closed_streams", dict),
        "_data": has(_frames, "_data", bytearray),
        "_data_offset": has(_frames, "_data_offset", int),
        "_decode_headers": method(jh2_connection, "_decode_headers", "decoder", "encoded_header_block"),
        "_get_or_create_stream": method(H2Connection, "_get_or_create_stream", "stream_id", "allowed_ids"),
        "_get_stream_by_id": method(H2Connection, "_get_stream_by_id", "stream_id"),
        "_headers_buffer": has(_frames, "_headers_buffer", list),
        "_receive_frame": method(H2Connection, "_receive_frame", "frame"),
        "_receive_headers_frame": method(H2Connection, "_receive_headers_frame", "frame"),
        "_receive_priority_frame": method(H2Connection, "_receive_priority_frame", "frame"),
        "_receive_settings_frame": method(H2Connection, "_receive_settings_frame", "frame"),
        "_terminate_connection": method(H2Connection, "_terminate_connection", "error_code"),
    },
    "tls": {"_sslobj": _tells_the_chain},
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_the_library_has_it(module: str, name: str) -> None:
    assert NAMES[module][name](), f"{name} of the library is not as aggserver.server.{module} uses it"


def test_no_others_are_used() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        module = importlib.import_module(f"aggserver.server.{name}".removesuffix(".__init__"))
        if used := _used(ast.parse(path.read_text())) | set(_overridden(module)):
            found[name] = used
    assert found == {module: set(names) for module, names in NAMES.items()}


def _used(tree: ast.Module) -> set[str]:
    """The private names that a module reads and does not define."""
    read, own = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                own.add(name)
            case ast.Attribute(attr=name, ctx=ast.Load()):
                read.add(name)
            case ast.Attribute(attr=name) | ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("aggserver"):
                read.update(each.name for each in names)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                read.add(name)
    return {name for name in read - own if _is_private(name)}


def _overridden(module: ModuleType) -> Iterator[str]:
    """The private names of its classes that a library's base class has, too."""
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if cls.__module__ == module.__name__:
            libraries = [base for base in cls.__mro__ if not base.__module__.startswith("aggserver.")]
            own = [name for name, each in vars(cls).items() if _is_private(name) and inspect.isroutine(each)]
            yield from (name for name in own if any(hasattr(base, name) for base in libraries))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
