"""The page "Extend the Kubernetes API with CustomResourceDefinitions" on objects, at kube-apiserver and at `aggserver dev`.

By kubectl, and by the same assertions at both. `test_standalone.py` has the page's commands, `test_page_schemas.py` what it says
of schemas.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.integration import pages
from tests.integration.server import eventually
from tests.integration.versions import Place, crontab

NAME = "my-new-cron-object"


def rows(text: str) -> list[list[str]]:
    """A table as its cells, columns split at three spaces and more."""
    return [re.split(r"\s{3,}", line.strip()) for line in text.splitlines()]


def cron(place: Place, **metadata: Any) -> dict[str, Any]:
    """The page's with three replicas, in the group of the test."""
    made: dict[str, Any] = yaml.safe_load(pages.MY_CRONTAB_WITH_REPLICAS)
    return {**made, "apiVersion": f"{place.group}/v1", "metadata": {"name": NAME, **metadata}}


# --- "Create custom objects", "Categories"


def test_names_that_kubectl_takes(either: Place) -> None:
    either.define(yaml.safe_load(pages.WITH_CATEGORY))
    either.create(cron(either))
    line = f"crontab.{either.group}/{NAME}\n"
    for written in ("crontabs", "crontab", "ct", "CronTabs", "CRONTAB"):
        assert either.kubectl("get", f"{written}.{either.group}", "-o", "name").stdout == line, written
    assert "the server doesn't have a resource type" in either.refused("get", f"CT.{either.group}")
    told = either.kubectl("api-resources", f"--api-group={either.group}", "-o", "wide").stdout
    header, row = rows(told)
    assert header == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"]
    assert row[:5] == ["crontabs", "ct", f"{either.group}/v1", "true", "CronTab"]
    assert row[-1] == "all"
    assert line in either.kubectl("get", "all", "-o", "name").stdout
    assert "customresourcedefinitions" in either.kubectl("api-resources", "--namespaced=false", "-o", "name").stdout


# --- "Finalizers"


def test_a_deletion_can_not_be_forced(either: Place) -> None:
    either.define(yaml.safe_load(pages.RESOURCE_DEFINITION))
    either.create(cron(either, finalizers=["stable.example.com/finalizer", "stable.example.com/other"]))
    resource = f"crontabs.{either.group}"
    either.kubectl("delete", resource, NAME, "--wait=false")
    before = either.get(resource, NAME)["metadata"]
    assert before["deletionTimestamp"]
    either.kubectl("delete", resource, NAME, "--wait=false", "--force", "--grace-period=0")
    assert either.get(resource, NAME)["metadata"]["deletionTimestamp"] == before["deletionTimestamp"]

    def finalizers(*names: str) -> str:
        patch = json.dumps({"metadata": {"finalizers": names}})
        return either.kubectl("patch", resource, NAME, "--type=merge", "-p", patch, check=False).stderr

    left, other = "stable.example.com/finalizer", "stable.example.com/other"
    assert "no new finalizers can be added if the object is being deleted" in finalizers(left, other, "example.com/new")
    assert finalizers(left) == ""
    assert "no new finalizers can be added if the object is being deleted" in finalizers(left, other)
    assert finalizers() == ""
    assert "not found" in either.refused("get", resource, NAME)


# --- "Additional printer columns"

_VALUES: dict[str, Any] = {"integer": 5, "number": 1.5, "string": "a", "boolean": True, "date": "2020-01-01T00:00:00Z"}
_WRONG: dict[str, Any] = {"integer": "many", "number": "many", "string": {}, "boolean": "yes", "date": 5}
_FORMATS = ["int32", "int64", "float", "double", "byte", "date", "date-time", "password"]


def test_types_formats_and_priorities_of_columns(either: Place) -> None:
    definition = yaml.safe_load(pages.RESOURCE_DEFINITION)
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    columns = [{"name": kind.title(), "type": kind, "jsonPath": f".spec.{kind}"} for kind in _VALUES]
    columns += [{"name": f"As {name}", "type": "string", "format": name, "jsonPath": ".spec.string"} for name in _FORMATS]
    columns += [{"name": "Wide", "type": "string", "priority": 1, "jsonPath": ".spec.wide"}]
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    version["additionalPrinterColumns"] = columns
    either.define(definition)
    either.create(
        crontab(either.group, "v1", "right", spec={**_VALUES, "wide": "w"}), crontab(either.group, "v1", "wrong", spec=_WRONG)
    )
    resource = f"crontabs.{either.group}"
    header, right, wrong = rows(either.kubectl("get", resource).stdout)
    assert header == ["NAME", *(column["name"].upper() for column in columns[:-1])]
    assert right[:5] == ["right", "5", "1.5", "a", "true"]
    assert re.fullmatch(r"\d+y(\d+d)?", right[5])
    assert right[6:] == ["a"] * len(_FORMATS)
    # Of the types, all but strings are left out where the value is another.
    assert wrong == ["wrong", *["{}"] * (1 + len(_FORMATS))]
    wide = rows(either.kubectl("get", resource, "right", "-o", "wide").stdout)
    assert (wide[0][-1], wide[1][-1]) == ("WIDE", "w")


# --- "Field selectors"


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("spec.color=blue", ["example1", "example2"], id="one-field"),
        pytest.param("spec.color=green,spec.size=M", ["example3"], id="two-fields"),
    ],
)
def test_field_selectors(either: Place, selector: str, names: list[str]) -> None:
    shirts = yaml.safe_load(pages.SHIRTS)
    shirts["spec"]["names"] = {"plural": "crontabs", "kind": "CronTab"}
    either.define(shirts)
    either.create(*({**obj, "apiVersion": f"{either.group}/v1", "kind": "CronTab"} for obj in _shirts()))
    resource = f"crontabs.{either.group}"
    header, *found = rows(either.kubectl("get", resource, "--field-selector", selector).stdout)
    assert header == ["NAME", "COLOR", "SIZE"]
    assert [row[0] for row in found] == names
    by_name = f"metadata.name=example2,metadata.namespace={either.namespace}"
    assert either.kubectl("get", resource, "--field-selector", by_name, "-o", "name").stdout.endswith("/example2\n")
    assert "field label not supported: spec.brand" in either.refused("get", resource, "--field-selector", "spec.brand=x")


def _shirts() -> list[dict[str, Any]]:
    return [obj for obj in yaml.safe_load_all(pages.SHIRT_RESOURCES) if obj]


# --- "Subresources"


def test_status(either: Place) -> None:
    either.define(yaml.safe_load(pages.WITH_SUBRESOURCES))
    resource = f"crontabs.{either.group}"
    either.create({**cron(either), "status": {"replicas": 9}})
    made = either.get(resource, NAME)
    assert ("status" in made, made["metadata"]["generation"]) == (False, 1)

    def replace(*options: str, **changes: Any) -> dict[str, Any]:
        current = either.get(resource, NAME)
        body = {**current, **changes, "metadata": {**current["metadata"], "labels": {"a": "b"}}}
        either.kubectl("replace", *options, "-f", "-", input=json.dumps(body))
        found: dict[str, Any] = either.get(resource, NAME)
        return found

    spec = {**made["spec"], "replicas": 7}
    after = replace("--subresource=status", spec=spec, status={"replicas": 2})
    assert (after["spec"], after["status"]) == (made["spec"], {"replicas": 2})
    assert (after["metadata"]["generation"], after["metadata"].get("labels")) == (1, None)
    after = replace(status={"replicas": 8})
    assert (after["status"], after["metadata"]["generation"], after["metadata"]["labels"]) == ({"replicas": 2}, 1, {"a": "b"})
    after = replace(spec=spec, status={"replicas": 8})
    assert (after["spec"], after["status"], after["metadata"]["generation"]) == (spec, {"replicas": 2}, 2)
    either.kubectl("patch", resource, NAME, "--type=merge", "-p", '{"status":{"replicas":8}}')
    assert either.get(resource, NAME)["status"] == {"replicas": 2}


def test_scale(either: Place) -> None:
    either.define(yaml.safe_load(pages.WITH_SUBRESOURCES))
    resource = f"crontabs.{either.group}"
    either.create(cron(either), crontab(either.group, "v1", "without", spec={}))

    def scale() -> Any:
        return either.get(resource, NAME, "--subresource=scale")

    found = scale()
    assert (found["kind"], found["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (found["spec"], found["status"]) == ({"replicas": 3}, {"replicas": 0})  # a selector that is empty is left out
    status = json.dumps({"status": {"replicas": 2, "labelSelector": "app=cron"}})
    either.kubectl("patch", resource, NAME, "--subresource=status", "--type=merge", "-p", status)
    assert scale()["status"] == {"replicas": 2, "selector": "app=cron"}
    scaled = either.kubectl("scale", "--replicas=5", f"{resource}/{NAME}").stdout
    assert scaled == f"crontab.{either.group}/{NAME} scaled\n"
    assert either.kubectl("get", resource, NAME, "-o", "jsonpath={.spec.replicas}").stdout == "5"
    missing = either.refused("get", resource, "without", "--subresource=scale")
    assert 'the spec replicas field ".spec.replicas" does not exist' in missing


# --- "Delete a CustomResourceDefinition"


def test_deleted_and_made_again(either: Place) -> None:
    either.define(yaml.safe_load(pages.RESOURCE_DEFINITION))
    either.create(cron(either))
    either.remove()
    path = f"/apis/{either.group}/v1/namespaces/{either.namespace}/crontabs"
    gone = "the server could not find the requested resource"
    eventually(lambda: gone in either.kubectl("get", "--raw", path, check=False).stderr, "the endpoint is gone")
    either.define(yaml.safe_load(pages.RESOURCE_DEFINITION))
    assert either.get(f"crontabs.{either.group}")["items"] == []
