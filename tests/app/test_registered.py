"""Which APIServices are wanted, and when: never fewer than there will be once everything was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aggserver.apiextensions.definition import parse
from aggserver.app.aggregated import DefinitionSources, keep_registered
from tests.fakes.definitions import definition, version
from tests.fakes.server import LocalServer


class Certificate:
    def __init__(self) -> None:
        self.ca_bundle = b""
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def becomes(self, bundle: bytes) -> None:
        self.ca_bundle = bundle
        for listener in self._listeners:
            listener()


class Registrar:
    def __init__(self) -> None:
        self.wanted: list[set[str]] = []

    def want(self, group_versions: Iterable[tuple[str, str]], ca_bundle: bytes) -> None:
        self.wanted.append({group for group, _ in group_versions})


async def test_nothing_is_wanted_before_the_folder_was_read(server: LocalServer) -> None:
    """Though resources of an App are served already: those of the folder would be removed for a moment."""
    certificate, registrar = Certificate(), Registrar()
    sources = DefinitionSources(server.engine, folder=True, adoption=False)
    arguments: Any = (server.engine.installer, certificate, registrar, sources)
    keep_registered(*arguments)
    certificate.becomes(b"CA")
    assert registrar.wanted == []
    widgets = parse(definition("widgets", "Widget", version("v1", {"spec": {"type": "object"}})))
    sources.in_folder({widgets.name: widgets})
    assert widgets.group in registrar.wanted[-1]


async def test_without_a_folder_it_is_wanted_at_once(server: LocalServer) -> None:
    certificate, registrar = Certificate(), Registrar()
    sources = DefinitionSources(server.engine, folder=False, adoption=False)
    arguments: Any = (server.engine.installer, certificate, registrar, sources)
    keep_registered(*arguments)
    assert registrar.wanted == []
    certificate.becomes(b"CA")
    assert len(registrar.wanted) == 1
