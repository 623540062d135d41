"""Rules for tests: the definition of the page on versions, and short ways to read, compile and run rules."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from aggserver.conversion import rule_compilation, rules
from aggserver.conversion.round_trips import round_trips
from aggserver.conversion.rule_compilation import Compiled
from aggserver.conversion.rules_converter import RulesConverter
from aggserver.meta.field import Path
from aggserver.schema.compiled import CompiledSchema

GROUP = "stable.example.com"

# Properties of the versions of the page's CronTab, and its conversion.
CRON_TAB = {"v1beta1": "hostPort: {type: string}", "v1": "{host: {type: string}, port: {type: string}}"}
CRON_TAB_RULES = """
conversions:
- from: v1beta1
  to: v1
  changes:
  - set: .host
    value: self.hostPort.split(':')[0]
  - set: .port
    value: self.hostPort.split(':')[1]
- from: v1
  to: v1beta1
  changes:
  - set: .hostPort
    value: self.host + ':' + self.port
"""


def schemas(versions: Mapping[str, str]) -> dict[str, CompiledSchema]:
    """versions: the properties of each version's schema, as YAML."""
    return {name: CompiledSchema({"type": "object", "properties": yaml.safe_load(text)}) for name, text in versions.items()}


def compiled(text: str, versions: Mapping[str, str], budget: int = 1) -> Compiled:
    at = Path("rules")
    given = rules.read(rules.decode(text, at), at, list(versions))
    structurals = {name: schema.structural for name, schema in schemas(versions).items()}
    return rule_compilation.compile_rules(given, structurals, budget)


def errors(text: str, versions: Mapping[str, str], budget: int = 1) -> list[str]:
    """The errors of the rules, at least one."""
    try:
        compiled(text, versions, budget)
    except rules.RulesError as error:
        return [str(each) for each in error.errors]
    raise AssertionError("the rules are accepted")


def converter(text: str, versions: Mapping[str, str]) -> RulesConverter:
    return RulesConverter("CronTab", compiled(text, versions), schemas(versions))


def converted(text: str, versions: Mapping[str, str], obj: dict[str, Any], to: str) -> dict[str, Any]:
    """The object in another version, pruned and defaulted, without its name. obj: its apiVersion is only the version."""
    obj = copy.deepcopy(obj)
    given = {**obj, "apiVersion": f"{GROUP}/{obj['apiVersion']}", "metadata": {"name": "a", **obj.get("metadata", {})}}
    made = converter(text, versions).at_once(given, f"{GROUP}/{to}")
    schemas(versions)[to].conform(made)
    assert made.pop("apiVersion") == f"{GROUP}/{to}"
    assert made["metadata"].pop("name") == "a"
    return {name: value for name, value in made.items() if name != "metadata" or value}


def findings(text: str, versions: Mapping[str, str]) -> list[str]:
    return list(map(str, round_trips((GROUP, "CronTab"), compiled(text, versions), schemas(versions)).findings))
