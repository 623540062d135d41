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
from jh2 import _hazmat

PACKAGE = Path(__file__).parents[2] / "aggserver" / "server"


def method(owner: Any, name: str, *parameters: str) -> Callable[[], bool]:
    """That `owner` has a function of this name with these parameters, `self` left out."""

    def there() -> bool:
        given = inspect.signature(getattr(owner, name)).parameters
        return [each for each in given if each != "self"] == list(parameters)

    return there


def _codes() -> bool:
    """That the compiled coder has what is used of it."""
    encoder, decoder = _hazmat.Encoder(), _hazmat.Decoder(100)
    encoder.header_table_size = 50
    decoder.max_allowed_table_size = 50
    fields = [(b"name", b"value", False)]
    assert decoder.decode(encoder.encode(fields), True) == fields
    with pytest.raises(_hazmat.OversizedHeaderListError):
        decoder.decode(encoder.encode([(b"name", b"v" * 97, True)]), True)
    with pytest.raises(_hazmat.HPACKError):
        decoder.decode(b"\xff\x00", True)
    return encoder.header_table_size == 50 == decoder.header_table_size


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
    "http2.header_block": {"_hazmat": _codes},
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
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith(("aggserver", "__future__")):
                read.update([*module.split("."), *(each.name for each in names)])
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
    return name.startswith("_") and not name.startswith("__") and not name.endswith("_")  # those of enum are documented
