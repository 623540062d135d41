"""`aggserver storage migrate`, on stores that a server has left."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from aggserver.app.errors import StartError
from aggserver.app.migrate import MigrationError, migrate
from aggserver.options import Options
from aggserver.storage.interface import Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME
from tests.fakes.definitions import GROUP, crontab, definition, version
from tests.fakes.server import LocalServer

NAME = f"crontabs.{GROUP}"
PREFIX = f"/{GROUP}/crontabs/"
_SPEC = {"spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}


def crontabs(storage: str) -> dict[str, Any]:
    crd = definition("crontabs", "CronTab", version("v1", _SPEC), version("v2", _SPEC))
    for each in crd["spec"]["versions"]:
        each["storage"] = each["name"] == storage
    return copy.deepcopy(crd)


def options(data: Path, **more: Any) -> Options:
    return Options(command="storage migrate", data=str(data), **more)


async def left(data: Path, *, definitions: bool = True, bad: bool = False) -> None:
    """Leave a store with objects stored as v1, whose storage version is v2 now."""
    storage: Any = SQLiteStorage(data / FILE_NAME)
    server = LocalServer(storage)
    await server.start()
    client = server.client()
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    if definitions:
        server.run()
        assert (await client.post(crds, crontabs("v1"))).status == 201
        assert await server.controller.settled([NAME]) == {}
    else:
        server.serve(crontabs("v1"))
    for number in range(3):
        assert (await client.post(f"/apis/{GROUP}/v1/namespaces/default/crontabs", crontab(f"n{number}"))).status == 201
    if bad:
        await storage.create(f"{PREFIX}default/bad", b'{"apiVersion":"x","kind":"CronTab","metadata":{')
    if definitions:
        assert (await client.merge(f"{crds}/{NAME}", {"spec": crontabs("v2")["spec"]})).status == 200
    await server.stop()


async def stored(data: Path) -> tuple[dict[str, str], list[str]]:
    """The version in which each object is stored, by its name, and the stored versions of the definition."""
    storage = SQLiteStorage(data / FILE_NAME)
    await storage.start()
    found = {}
    for item in (await storage.list(PREFIX)).items:
        if not item.key.endswith("/bad"):
            found[item.key.rpartition("/")[2]] = json.loads(item.value)["apiVersion"].rpartition("/")[2]
    crd = await storage.get(f"/apiextensions.k8s.io/customresourcedefinitions/{NAME}")
    await storage.close()
    return found, json.loads(crd.value)["status"]["storedVersions"] if crd is not None else []


async def test_definitions_of_the_store(tmp_path: Path) -> None:
    await left(tmp_path)
    told = "all objects are stored in the storage versions of their definitions"
    assert await migrate(options(tmp_path)) == f"{told}: {NAME} v2"
    assert await stored(tmp_path) == (dict.fromkeys(("n0", "n1", "n2"), "v2"), ["v2"])
    assert await migrate(options(tmp_path)) == f"{told}, and there was nothing to do"


async def test_definitions_of_a_folder(tmp_path: Path) -> None:
    await left(tmp_path, definitions=False)
    with pytest.raises(StartError, match="--definitions DIR"):
        await migrate(options(tmp_path))
    folder = tmp_path / "definitions"
    folder.mkdir()
    (folder / "crontabs.json").write_text(json.dumps(crontabs("v2")))
    assert (await migrate(options(tmp_path, definitions=folder))).endswith(f": {NAME} v2")
    assert await stored(tmp_path) == (dict.fromkeys(("n0", "n1", "n2"), "v2"), [])
    (folder / "crontabs.json").write_text("{")
    with pytest.raises(StartError, match=r"crontabs\.json"):
        await migrate(options(tmp_path, definitions=folder))


async def test_what_fails_is_named(tmp_path: Path) -> None:
    await left(tmp_path, bad=True)
    with pytest.raises(MigrationError, match=f"objects of {NAME} can't be rewritten as v2: default/bad: it can't be read"):
        await migrate(options(tmp_path))
    assert await stored(tmp_path) == (dict.fromkeys(("n0", "n1", "n2"), "v2"), ["v1", "v2"])


async def test_a_store_that_is_in_use(tmp_path: Path) -> None:
    await left(tmp_path)
    server = SQLiteStorage(tmp_path / FILE_NAME)
    await server.start()
    with pytest.raises(Unavailable, match="is in use by another server or command"):
        await migrate(options(tmp_path))
    await server.close()


async def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="there is no store in it"):
        await migrate(options(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()
