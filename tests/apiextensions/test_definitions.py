"""Which definitions are served, and what becomes of their caches."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from aggserver.apiextensions.definition import Definition, parse
from aggserver.apiextensions.definitions import Definitions
from aggserver.apiextensions.serving import DefinitionResource
from aggserver.informers.informer import ALL
from aggserver.registry.rest import Context
from tests.fakes.definitions import CRONTABS, GROUP, WIDGETS
from tests.fakes.server import ADMIN, LocalServer


@pytest.fixture
def definitions(server: LocalServer) -> Definitions:
    return server.engine.definitions


def changed(crd: Mapping[str, Any], **spec: Any) -> Definition:
    return parse({**crd, "spec": {**crd["spec"], **spec}})


# --- which are served ---


def test_the_same_again_changes_nothing(server: LocalServer, definitions: Definitions) -> None:
    resource = definitions.set(parse(CRONTABS))
    generation = server.engine.installer.generation
    assert definitions.set(parse(copy.deepcopy(CRONTABS))) is resource
    assert server.engine.installer.generation == generation


def test_a_change_replaces_it(server: LocalServer, definitions: Definitions) -> None:
    old = definitions.set(parse(CRONTABS))
    new = definitions.set(changed(CRONTABS, names={**CRONTABS["spec"]["names"], "categories": ["all"]}))
    assert definitions.get(new.definition.name) is new is not old
    served = server.engine.installer.find(GROUP, "v1", "crontabs")
    assert served is not None
    assert served.resource.categories == ("all",)


def test_terminating_is_a_change(definitions: Definitions) -> None:
    definitions.set(parse(CRONTABS))
    resource = definitions.set(parse(CRONTABS), terminating=True)
    assert resource.versions[0].resource.verbs == ("delete", "deletecollection", "get", "list", "watch")


def test_a_version_that_is_served_no_more(server: LocalServer, definitions: Definitions) -> None:
    definitions.set(parse(CRONTABS))
    first, *_ = CRONTABS["spec"]["versions"]
    definitions.set(changed(CRONTABS, versions=[first]))
    assert server.engine.installer.find(GROUP, "v1beta1", "crontabs") is None


def test_remove(server: LocalServer, definitions: Definitions) -> None:
    name = definitions.set(parse(CRONTABS)).definition.name
    definitions.remove(name)
    definitions.remove(name)
    assert definitions.get(name) is None
    assert server.engine.installer.find(GROUP, "v1", "crontabs") is None


def test_set_all(server: LocalServer, definitions: Definitions) -> None:
    crontabs, widgets = parse(CRONTABS), parse(WIDGETS)
    definitions.set_all({each.name: each for each in (crontabs, widgets)})
    generation = server.engine.installer.generation
    kept = definitions.get(widgets.name)
    definitions.set_all({widgets.name: widgets})
    assert server.engine.installer.generation == generation + 1
    assert definitions.get(widgets.name) is kept
    assert definitions.get(crontabs.name) is None
    definitions.set_all({widgets.name: widgets})
    assert definitions.get(widgets.name) is kept


# --- the cache ---


async def watched(resource: DefinitionResource) -> Any:
    """The cache, after a read."""
    await resource.store(resource.definition.storage_version).list(Context(ADMIN), ALL)
    return resource._cacher


async def test_nothing_is_opened_before_it_is_asked_for(definitions: Definitions) -> None:
    assert definitions.set(parse(CRONTABS))._cacher is None


async def test_versions_share_a_cache(definitions: Definitions) -> None:
    resource = definitions.set(parse(CRONTABS))
    first, second = (resource.store(each) for each in resource.definition.versions[:2])
    assert first._cacher is second._cacher


async def test_a_successor_takes_the_cache_over(definitions: Definitions) -> None:
    cache = await watched(definitions.set(parse(CRONTABS)))
    new = definitions.set(changed(CRONTABS, names={**CRONTABS["spec"]["names"], "categories": ["all"]}))
    assert await watched(new) is cache


async def test_other_selectable_fields_need_another_cache(definitions: Definitions) -> None:
    cache = await watched(definitions.set(parse(CRONTABS)))
    versions = copy.deepcopy(CRONTABS["spec"]["versions"])
    del versions[0]["selectableFields"]
    assert await watched(definitions.set(changed(CRONTABS, versions=versions))) is not cache
    assert cache._closed
