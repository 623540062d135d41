"""`aggserver convert`: what it prints of objects and definitions, and how it ends."""

from __future__ import annotations

import copy
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.apiextensions.conversion_annotation import ANNOTATION
from aggserver.cli import main
from tests.conversion.rules import CRON_TAB_RULES
from tests.fakes.definitions import GROUP, definition, version

STRING = {"type": "string"}
CRD = definition(
    "crontabs",
    "CronTab",
    version("v1beta1", {"hostPort": STRING}),
    version("v1", {"host": STRING, "port": STRING, "replicas": {"type": "integer", "default": 1}}),
)
RENAME = "conversions: [{from: v1beta1, to: v1, changes: [{move: .hostPort, to: .host}]}]"
OLD = {"apiVersion": f"{GROUP}/v1beta1", "kind": "CronTab", "metadata": {"name": "a"}, "hostPort": "a:1", "unknown": 3}
NEW = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "metadata": {"name": "b"}, "host": "b", "port": "2"}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder with crd.yaml; returns the exit status and what was printed."""
    monkeypatch.chdir(tmp_path)
    write("crd.yaml", with_rules(CRON_TAB_RULES))

    def running(*arguments: str) -> tuple[int, str, str]:
        status = main(["convert", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return running


def write(name: str, *documents: Any) -> None:
    Path(name).write_text("\n---\n".join(json.dumps(document) for document in documents))


def with_rules(rules: str) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(CRD)
    made["metadata"]["annotations"] = {ANNOTATION: rules}
    return made


def test_objects_of_several_versions(run: Run) -> None:
    write("objects.yaml", OLD, OTHER, {"apiVersion": "v1", "kind": "List", "items": [NEW]})
    status, out, err = run("-f", "crd.yaml", "--to", "v1", "objects.yaml")
    assert (status, err) == (0, "")
    one, two = yaml.safe_load_all(out)
    converted = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "metadata": {"name": "a"}}
    assert one == {**converted, "host": "a", "port": "1", "replicas": 1}
    assert two == {**NEW, "replicas": 1}


def test_json(run: Run) -> None:
    write("one.json", OLD)
    assert json.loads(run("-f", "crd.yaml", "--to", "v1", "one.json", "-o", "json")[1])["host"] == "a"
    write("two.json", OLD, NEW)
    made = json.loads(run("-f", "crd.yaml", "--to", "v1beta1", "two.json", "-o", "json")[1])
    assert (made["kind"], [each["hostPort"] for each in made["items"]]) == ("List", ["a:1", "b:2"])


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(OLD).encode())))
    assert yaml.safe_load(run("-f", "crd.yaml", "--to", "v1", "-")[1])["port"] == "1"


def test_a_definition_without_rules(run: Run) -> None:
    write("crd.yaml", CRD)
    write("one.yaml", OLD)
    made = yaml.safe_load(run("-f", "crd.yaml", "--to", "v1", "one.yaml")[1])
    assert made == {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "metadata": {"name": "a"}, "replicas": 1}


def test_an_object_that_can_not_be_converted(run: Run) -> None:
    write("one.yaml", {**OLD, "hostPort": "a"})
    status, out, err = run("-f", "crd.yaml", "--to", "v1", "one.yaml")
    assert (status, out) == (1, "")
    assert err.startswith(f"aggserver: one.yaml: CronTab a: conversion of crontabs.{GROUP} from v1beta1 to v1 failed: "), err


def test_a_check(run: Run) -> None:
    status, out, _ = run("-f", "crd.yaml", "--check")
    assert status == 0
    assert "v1beta1 to v1: 2 changes, estimated cost " in out
    assert 'warning: v1beta1 to v1: fails: changes[1].value (set .port): index out of bounds: 1, for {"hostPort":"text"}' in out


def test_a_check_of_a_renamed_field(run: Run) -> None:
    write("crd.yaml", with_rules(RENAME))
    found = json.loads(run("-f", "crd.yaml", "--check", "-o", "json")[1])
    assert (found["ok"], found["errors"], found["tried"] > 3) == (True, [], True)
    assert [(each["from"], each["derived"], each["estimatedTotal"]) for each in found["conversions"]] == [
        ("v1beta1", False, 0),
        ("v1", True, 0),
    ]
    assert "v1 to v1beta1 and back: .port is lost" in found["warnings"]


def test_a_check_of_wrong_rules(run: Run) -> None:
    write("crd.yaml", with_rules("conversions: [{from: v1, to: v1}]"))
    status, out, _ = run("-f", "crd.yaml", "--check")
    assert status == 1
    assert f"error: metadata.annotations[{ANNOTATION}].conversions[0]: Invalid value" in out
    write("one.yaml", OLD)
    assert run("-f", "crd.yaml", "--to", "v1", "one.yaml")[0] == 1


def test_the_strategy_of_files(run: Run) -> None:
    made: dict[str, Any] = copy.deepcopy(CRD)
    made["spec"]["conversion"] = {"strategy": "Rules", "rules": yaml.safe_load(RENAME)}
    write("crd.yaml", made)
    write("one.yaml", OLD)
    assert yaml.safe_load(run("-f", "crd.yaml", "--to", "v1", "one.yaml")[1])["host"] == "a:1"
    made["spec"]["conversion"]["rules"]["hub"] = "v9"
    write("crd.yaml", made)
    assert "error: spec.conversion.rules.hub: Unsupported value" in run("-f", "crd.yaml", "--check")[1]


CHECKED_ALONE = "--check checks the definition alone, without --to and OBJECTS"
BY_WEBHOOK = f"crontabs.{GROUP} is converted by a webhook, which only a server calls"
VERSIONS = f"crontabs.{GROUP} has the versions v1beta1, v1"
MISTAKES = {
    "no definition": (("--to", "v1", "one.yaml"), "convert: --definition is required"),
    "no version": (("-f", "crd.yaml", "one.yaml"), "convert: --to and OBJECTS are required, or --check"),
    "a check of objects": (
        ("-f", "crd.yaml", "one.yaml", "--check"),
        "--check checks the definition alone, without --to and OBJECTS",
    ),
    "both from standard input": (("-f", "-", "--to", "v1", "-"), "-: standard input can be used for one file only"),
    "an unknown version": (
        ("-f", "crd.yaml", "--to", "v9", "one.yaml"),
        f"--to v9: crontabs.{GROUP} has the versions v1beta1, v1",
    ),
    "no such file": (("-f", "crd.yaml", "--to", "v1", "no.yaml"), "no.yaml: No such file or directory"),
    "no object": (("-f", "crd.yaml", "--to", "v1", "other.yaml"), f"other.yaml: has no CronTab of {GROUP}"),
    "nothing to check": (("-f", "plain.yaml", "--check"), f"plain.yaml: crontabs.{GROUP} has no conversion rules"),
    "a webhook": (
        ("-f", "hook.yaml", "--to", "v1", "one.yaml"),
        f"crontabs.{GROUP} is converted by a webhook, which only a server calls",
    ),
}


@pytest.mark.parametrize(("arguments", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake(run: Run, arguments: tuple[str, ...], text: str) -> None:
    hook: dict[str, Any] = copy.deepcopy(CRD)
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"}}
    hook["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    write("one.yaml", OLD)
    write("other.yaml", OTHER)
    write("plain.yaml", CRD)
    write("hook.yaml", hook)
    assert run(*arguments) == (2, "", f"aggserver: {text}\n")
