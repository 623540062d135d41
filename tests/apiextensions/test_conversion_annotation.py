"""Conversion rules in definitions: by the API with the annotation, by files with the strategy, and on objects."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aggserver.apiextensions import validation
from aggserver.apiextensions.content import content_digest, same_content
from aggserver.apiextensions.conversion_annotation import ANNOTATION, compile_rules, converter
from aggserver.apiextensions.definition import parse
from aggserver.apiextensions.files import FolderSource
from aggserver.conversion.converter import ConversionError
from aggserver.meta.json_types import JSONObject
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.rules import RuleOptions
from tests.conversion.rules import CRON_TAB_RULES
from tests.fakes.asgi import Answer, Client
from tests.fakes.definitions import GROUP, definition, version
from tests.fakes.server import LocalServer

STRING = {"type": "string", "maxLength": 100}
SPEC = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
OLD = version("v1beta1", {"hostPort": {**STRING, "pattern": "^[a-z]+:[0-9]+$"}, "spec": SPEC})
NEW = version("v1", {"host": {**STRING, "pattern": "^[a-z]+$"}, "port": {**STRING, "pattern": "^[0-9]+$"}, "spec": SPEC})
NEW["schema"]["openAPIV3Schema"]["required"] = ["host", "port"]
OLD["schema"]["openAPIV3Schema"]["required"] = ["hostPort"]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ONE = f"{DEFINITIONS}/crontabs.{GROUP}"
ANNOTATION_PATH = f"metadata.annotations[{ANNOTATION}]"


def crd(rules: str = CRON_TAB_RULES, *versions: JSONObject) -> JSONObject:
    """v1beta1 is stored."""
    made = definition("crontabs", "CronTab", *(versions or (OLD, NEW)))
    made["metadata"]["annotations"] = {ANNOTATION: rules}
    return made


def path(version: str, name: str = "") -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/crontabs{f'/{name}' if name else ''}"


def crontab(version: str, name: str, **more: Any) -> JSONObject:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "CronTab", "metadata": {"name": name}, **more}


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    server = LocalServer()
    await server.start()
    server.run()
    yield server
    await server.stop()


async def establish(server: LocalServer, client: Client, manifest: JSONObject) -> None:
    answer = await client.post(DEFINITIONS, manifest)
    assert answer.status == 201, answer.body
    assert await server.controller.settled([manifest["metadata"]["name"]]) == {}


async def test_objects_in_both_versions(server: LocalServer) -> None:
    client = server.client()
    await establish(server, client, crd())
    made = await client.post(path("v1"), crontab("v1", "new", host="a", port="1", spec={"replicas": 2}))
    assert made.status == 201, made.body
    assert {name: made.json().get(name) for name in ("host", "port", "hostPort")} == {"host": "a", "port": "1", "hostPort": None}
    await client.post(path("v1beta1"), crontab("v1beta1", "old", hostPort="b:2"))

    one = (await client.get(path("v1beta1", "new"))).json()
    assert (one["apiVersion"], one["hostPort"], one["spec"]) == (f"{GROUP}/v1beta1", "a:1", {"replicas": 2})
    listed = (await client.get(path("v1"))).json()["items"]
    assert [(each["host"], each["port"]) for each in listed] == [("a", "1"), ("b", "2")]
    listed = (await client.get(path("v1beta1"))).json()["items"]
    assert [each["hostPort"] for each in listed] == ["a:1", "b:2"]
    assert "host" not in listed[0]

    one = (await client.get(path("v1", "old"))).json()
    changed = await client.put(path("v1", "old"), {**one, "port": "3"})
    assert changed.status == 200, changed.body
    assert (await client.get(path("v1beta1", "old"))).json()["hostPort"] == "b:3"


async def test_long_rules(server: LocalServer) -> None:
    """They are compiled in a thread."""
    client = server.client()
    await establish(server, client, crd(f"# {'long ' * 1000}\n{CRON_TAB_RULES}"))
    await client.post(path("v1beta1"), crontab("v1beta1", "one", hostPort="a:1"))
    assert (await client.get(path("v1", "one"))).json()["port"] == "1"


async def test_a_watch_in_the_other_version(server: LocalServer) -> None:
    client = server.client()
    await establish(server, client, crd())
    await client.post(path("v1beta1"), crontab("v1beta1", "one", hostPort="a:1"))
    async with client.watch(f"{path('v1')}?watch=1&resourceVersion=0") as watch:
        event = await watch.event()
        assert (event["type"], event["object"]["host"], event["object"]["port"]) == ("ADDED", "a", "1")
        await client.merge(path("v1beta1", "one"), {"hostPort": "a:2"})
        event = await watch.event()
        assert (event["type"], event["object"]["apiVersion"], event["object"]["port"]) == ("MODIFIED", f"{GROUP}/v1", "2")


async def test_applies_by_managers_in_both_versions(server: LocalServer) -> None:
    """Each owns fields of its own version."""
    client = server.client()
    await establish(server, client, crd())

    async def apply(manager: str, obj: JSONObject, force: str = "false") -> Answer:
        version = obj["apiVersion"].rpartition("/")[2]
        target = f"{path(version, 'one')}?fieldManager={manager}&force={force}"
        return await client.request("PATCH", target, obj, content_type="application/apply-patch+yaml")

    assert (await apply("old", crontab("v1beta1", "one", hostPort="a:1"))).status == 201
    assert (await apply("new", crontab("v1", "one", host="a", port="1", spec={"replicas": 2}))).status == 200
    made = (await client.get(path("v1", "one"))).json()
    owners = {(each["manager"], each["apiVersion"]): sorted(each["fieldsV1"]) for each in made["metadata"]["managedFields"]}
    assert owners == {
        ("old", f"{GROUP}/v1beta1"): ["f:hostPort"],
        ("new", f"{GROUP}/v1"): ["f:host", "f:port", "f:spec"],
    }
    # A change in the one version takes the field of the other one from its owner.
    assert (await apply("new", crontab("v1", "one", host="b", port="1"), "true")).status == 200
    made = (await client.get(path("v1beta1", "one"))).json()
    assert (made["hostPort"], made.get("spec")) == ("b:1", None)
    assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["new"]


async def test_an_apply_that_gives_up_fields_in_the_other_version(server: LocalServer) -> None:
    """To find what nobody owns any more, objects without required fields are converted."""
    client = server.client()
    await establish(server, client, crd())

    async def apply(manager: str, obj: JSONObject) -> Answer:
        target = f"{path(obj['apiVersion'].rpartition('/')[2], 'one')}?fieldManager={manager}&force=true"
        return await client.request("PATCH", target, obj, content_type="application/apply-patch+yaml")

    assert (await apply("a", crontab("v1beta1", "one", hostPort="a:1", spec={"replicas": 1}))).status == 201
    assert (await apply("b", crontab("v1", "one", host="a", port="1", spec={"replicas": 1}))).status == 200
    assert (await apply("a", crontab("v1beta1", "one"))).status == 200
    assert (await client.get(path("v1beta1", "one"))).json()["hostPort"] == "a:1"
    assert (await apply("b", crontab("v1", "one", host="a", port="1"))).status == 200
    assert "spec" not in (await client.get(path("v1", "one"))).json()
    answer = await apply("b", crontab("v1", "one"))
    assert answer.status == 422
    assert answer.message.endswith("[host: Required value, port: Required value]")


async def test_a_definition_with_rules_that_are_wrong_is_refused(server: LocalServer) -> None:
    client = server.client()
    answer = await client.post(DEFINITIONS, crd("conversions: [{from: v1, to: v1}]"))
    assert answer.status == 422
    causes = answer.json()["details"]["causes"]
    assert [cause["field"] for cause in causes] == [f"{ANNOTATION_PATH}.conversions[0]"]
    assert "not a loop from one to itself" in causes[0]["message"]


async def test_what_does_not_come_back_is_a_warning(server: LocalServer) -> None:
    client = server.client()
    answer = await client.post(DEFINITIONS, crd())
    assert answer.warnings == []
    more = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/x", "value": STRING}]
    answer = await client.request("PATCH", ONE, more, content_type="application/json-patch+json")
    assert answer.status == 200, answer.body
    assert answer.warnings == [f'299 - "{ANNOTATION}: v1beta1 to v1 and back: .x is lost"']
    answer = await client.merge(ONE, {"metadata": {"labels": {"a": "b"}}})
    assert (answer.status, answer.warnings) == (200, [])


async def test_an_object_that_can_not_be_converted(server: LocalServer) -> None:
    """It is an error that names the rule, for those who want the other version."""
    client = server.client()
    loose = version("v1beta1", {"hostPort": STRING})
    await establish(server, client, crd(CRON_TAB_RULES, loose, NEW))
    await client.post(path("v1beta1"), crontab("v1beta1", "one", hostPort="nothing"))
    assert (await client.get(path("v1beta1", "one"))).json()["hostPort"] == "nothing"
    answer = await client.get(path("v1", "one"))
    assert answer.status == 500
    rule = f"{ANNOTATION_PATH}.conversions[0].changes[1].value (set .port): index out of bounds: 1"
    assert f"conversion of crontabs.{GROUP} from v1beta1 to v1 failed: {rule}" in answer.message


# --- definitions ---


def errors(new: JSONObject, old: JSONObject | None = None) -> list[str]:
    found = validation.validate(new) if old is None else validation.validate_update(new, old)
    return [str(error) for error in found]


def test_a_change_of_the_schema_is_checked() -> None:
    other = copy.deepcopy(crd())
    del other["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["port"]
    other["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["required"] = ["host"]
    assert any(
        'changes[1].set: Invalid value: ".port": in v1, .port is not in the schema' in each for each in errors(other, crd())
    )


def test_errors_that_were_there_before_may_stay() -> None:
    broken = crd("conversions: [{from: v1, to: v9}]")
    assert errors(broken)
    assert errors(broken, broken) == []
    changed = copy.deepcopy(broken)
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["x"] = STRING
    assert errors(changed, broken) == []
    changed["metadata"]["annotations"][ANNOTATION] = "conversions: [{from: v1, to: v8}]"
    assert errors(changed, broken)


def test_rules_need_pruning() -> None:
    crd_ = crd()
    old = copy.deepcopy(crd_)
    for each in (crd_, old):
        each["spec"]["preserveUnknownFields"] = True
    del old["metadata"]["annotations"]
    assert any("must not be set if spec.preserveUnknownFields is true" in each for each in errors(crd_, old)), errors(crd_, old)


def test_a_stored_definition_with_broken_rules_is_served_without_conversion() -> None:
    made = converter("crontabs", "conversions: []", {"v1": CompiledSchema({"type": "object"})})
    assert made.at_once is not None
    assert made.at_once({"apiVersion": "a/v1"}, "a/v1") == {"apiVersion": "a/v1"}
    with pytest.raises(ConversionError, match=r"conversion of crontabs failed: metadata.annotations\[aggserver.io/conversion\]"):
        made.at_once({"apiVersion": "a/v1"}, "a/v2")


def test_rules_are_compiled_once_for_the_same_schemas() -> None:
    def compiled(crd_: JSONObject, rules: str, budget: int = 1) -> object:
        versions = crd_["spec"]["versions"]
        schemas = {each["name"]: CompiledSchema(each["schema"]["openAPIV3Schema"]) for each in versions}
        return compile_rules(rules, schemas, RuleOptions(budget=budget))

    other = copy.deepcopy(crd())
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["x"] = STRING
    one = compiled(crd(), CRON_TAB_RULES)
    assert one is compiled(copy.deepcopy(crd()), CRON_TAB_RULES)
    assert one is not compiled(other, CRON_TAB_RULES)
    assert one is not compiled(crd(), CRON_TAB_RULES + "\n")
    assert one is not compiled(crd(), CRON_TAB_RULES, 2)


def test_the_annotation_comes_before_the_webhook() -> None:
    made = crd()
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"}}
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    assert errors(made) == []
    conversion = parse(made).conversion
    assert conversion.rules == CRON_TAB_RULES
    assert conversion.webhook is not None


def test_other_rules_are_another_content() -> None:
    one, other = parse(crd()), parse(crd(CRON_TAB_RULES.replace("':'", "'/'")))
    assert not same_content(one, other)
    assert content_digest(one) != content_digest(other)


# --- files ---


def with_strategy(**more: Any) -> JSONObject:
    made = crd()
    del made["metadata"]["annotations"]
    changes = [{"move": ".host", "to": ".hostPort"}, {"save": ".port", "annotation": "example.com/port"}]
    rules = {"conversions": [{"from": "v1", "to": "v1beta1", "changes": changes}]}
    made["spec"]["conversion"] = {"strategy": "Rules", "rules": rules, **more}
    return made


def loaded(folder: Path, manifest: JSONObject) -> tuple[list[str], list[str]]:
    """The rules of the definitions in a folder with this manifest, and the problems."""
    (folder / "crd.json").write_text(json.dumps(manifest))
    found = FolderSource(folder, lambda _: None).poll()
    assert found is not None
    return [each.conversion.rules for each in found.definitions], [f"{each.field}: {each.message}" for each in found.problems]


def test_the_strategy_in_files(tmp_path: Path) -> None:
    manifest = with_strategy()
    (text,), problems = loaded(tmp_path, manifest)
    assert problems == []
    assert json.loads(text) == manifest["spec"]["conversion"]["rules"]


def test_the_annotation_in_files(tmp_path: Path) -> None:
    assert loaded(tmp_path, crd()) == ([CRON_TAB_RULES], [])


def test_errors_in_files_have_the_path_of_the_manifest(tmp_path: Path) -> None:
    manifest = with_strategy()
    manifest["spec"]["conversion"]["rules"]["conversions"][0]["changes"][0]["to"] = ".nothing"
    (problem,) = loaded(tmp_path, manifest)[1]
    assert problem.startswith('spec.conversion.rules.conversions[0].changes[0].to: Invalid value: ".nothing": in v1beta1')


@pytest.mark.parametrize(
    ("more", "annotations", "why"),
    [
        ({"rules": None}, {}, "spec.conversion.rules: Required value"),
        ({"webhook": {}}, {}, "spec.conversion: Forbidden: must have only rules if the strategy is Rules"),
        ({}, {ANNOTATION: "{}"}, "must not be set together with the annotation aggserver.io/conversion"),
    ],
)
def test_strategies_in_files_that_are_refused(more: JSONObject, annotations: JSONObject, why: str, tmp_path: Path) -> None:
    manifest = with_strategy(**more)
    manifest["metadata"]["annotations"] = annotations
    definitions, problems = loaded(tmp_path, manifest)
    assert definitions == []
    assert any(why in problem for problem in problems), problems


def test_the_api_refuses_the_strategy() -> None:
    assert any('spec.conversion.strategy: Unsupported value: "Rules"' in each for each in errors(with_strategy()))
