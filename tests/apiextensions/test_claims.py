"""Definitions with names of a resource that is served without one: a client's, and those of a folder."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest

from aggserver.apiextensions.claims import NameClaims
from aggserver.apiextensions.definition import parse
from aggserver.app.aggregated import DefinitionSources
from aggserver.resources.app import App
from tests.fakes.clock import settled, until
from tests.fakes.definitions import CRONTABS
from tests.fakes.server import LocalServer
from tests.resources.stored_apps import SITES, serving, site, stored

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(plural: str, kind: str, group: str = "paas.example.com", **names: Any) -> dict[str, Any]:
    made = copy.deepcopy(dict(CRONTABS))
    made["metadata"] = {"name": f"{plural}.{group}"}
    made["spec"] |= {"group": group, "names": {"plural": plural, "kind": kind, **names}}
    return made


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "the same name": (crd("sites", "Other"), '"sites" is already in use'),
    "the same kind": (crd("others", "Site"), '"SiteList" is already in use'),
    "the same list kind": (crd("others", "Other", listKind="SiteList"), '"SiteList" is already in use'),
    "a short name": (crd("others", "Other", shortNames=["st"]), '"st" is already in use'),
    "its singular": (crd("others", "Other", singular="site"), '"site" is already in use'),
    "other names": (crd("others", "Other"), ""),
    "another group": (crd("sites", "Site", "example.com"), ""),
}


@pytest.mark.parametrize("name", CASES)
def test_conflicts(name: str) -> None:
    given, text = CASES[name]
    claims = NameClaims()
    claims.add(parse(crd("sites", "Site", singular="site", listKind="SiteList", shortNames=["st"])), "app.py:3")
    expected = f"{text}, by sites.paas.example.com (app.py:3)" if text else ""
    assert claims.conflict(given) == expected
    full = copy.deepcopy(given)
    full["spec"]["names"] = {"singular": full["spec"]["names"]["kind"].lower(), **full["spec"]["names"]}
    full["spec"]["names"].setdefault("listKind", f"{full['spec']['names']['kind']}List")
    assert bool(claims.conflict_of(parse(full))) == bool(text)
    assert claims.by("sites.paas.example.com") == "app.py:3"
    assert claims.by("others.paas.example.com") == ""


@pytest.mark.parametrize("given", [crd("sites", "Other"), crd("others", "Site")], ids=["name", "kind"])
async def test_a_client_can_not_take_the_place(
    server: LocalServer, given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    app: App[None] = App()
    stored(app)
    path = f"{CRDS}/{given['metadata']['name']}"
    async with serving(app, server=server) as running:
        server.run()
        await running.admin.post(SITES, site())
        assert (await running.admin.post(CRDS, given)).status == 201

        async def is_judged() -> bool:
            status = (await running.admin.get(path)).json().get("status") or {}
            return bool(status.get("conditions"))

        await until(is_judged)
        conditions = {each["type"]: each for each in (await running.admin.get(path)).json()["status"]["conditions"]}
        assert conditions["NamesAccepted"]["status"] == "False"
        assert "is already in use" in conditions["NamesAccepted"]["message"]
        assert conditions["Established"]["status"] == "False"
        assert (await running.admin.get(f"{SITES}/web")).json()["spec"] == {"image": "web:1", "replicas": 1}
        assert server.engine.definitions.get(given["metadata"]["name"]) is None
        assert "by sites.paas.example.com (stored_apps.py:" in caplog.text
        # Its deletion deletes no objects of the App.
        await running.admin.delete(path)
        await until(lambda: _is_gone(running.admin, path))
        assert (await running.admin.get(f"{SITES}/web")).status == 200


async def _is_gone(client: Any, path: str) -> bool:
    return bool((await client.get(path)).status == 404)


async def test_a_definition_that_was_there_before_the_app(caplog: pytest.LogCaptureFixture) -> None:
    """It was Established, and has an object; the App now serves the name, and its objects are not deleted with the definition."""
    first = LocalServer()
    await first.start()
    first.run()
    given = crd("sites", "Site")
    await first.client().post(CRDS, given)
    old = "/apis/paas.example.com/v1/namespaces/default/sites"

    async def is_served() -> bool:
        return bool((await first.client().get(old)).status == 200)

    await until(is_served)
    second = LocalServer(first.storage)
    app: App[None] = App()
    stored(app)
    async with serving(app, server=second) as running:
        second.run()
        path = f"{CRDS}/sites.paas.example.com"

        async def is_refused() -> bool:
            status = (await running.admin.get(path)).json()["status"]["conditions"]
            return any(each["type"] == "NamesAccepted" and each["status"] == "False" for each in status)

        await until(is_refused)
        assert second.engine.definitions.get("sites.paas.example.com") is None
        await running.admin.post(SITES, site())
        await running.admin.delete(path)
        await until(lambda: _is_gone(running.admin, path))
        assert (await running.admin.get(f"{SITES}/web")).status == 200
    await second.stop()
    await settled()


async def test_a_folder_can_not_take_the_place(server: LocalServer, caplog: pytest.LogCaptureFixture) -> None:
    app: App[None] = App()
    stored(app)
    app.hooks("nothings.example.com")
    async with serving(app, server=server):
        sources = DefinitionSources(server.engine, folder=True, adoption=False)
        given = {each.name: each for each in (parse(crd("sites", "Other")), parse(crd("others", "Other")))}
        with caplog.at_level(logging.ERROR):
            sources.in_folder(given)
            sources.in_folder(given)
    assert server.engine.definitions.get("sites.paas.example.com") is None
    assert server.engine.definitions.get("others.paas.example.com") is not None
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, messages
    assert messages[0].startswith('definitions: sites.paas.example.com is not served: "sites" is already in use, by ')
    assert messages[1].endswith(": hooks on nothings.example.com are never called: this server serves no such definition")
    assert messages[1].startswith("test_claims.py:")
