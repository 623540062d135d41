"""docs/metrics.md is what the code says, and manifests/monitoring asks for metrics and labels that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests import metrics_page

ROOT = Path(__file__).parents[1]
MONITORING = ROOT / "manifests" / "monitoring"
RULES = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())["spec"]["groups"]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
DESCRIBED = {each.name: each for each in metrics_page.every_metric().described()}

# Labels that Prometheus adds.
TARGET = {"job", "instance"}
# What an expression may call or say beside metrics and labels.
WORDS = {"absent", "by", "histogram_quantile", "label_values", "max", "or", "rate", "sum", "topk", "up"}
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\$?\w+|=~|!~|!=|==|>=|<=|\S')


def expressions():
    for group in RULES:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


EXPRESSIONS = dict(expressions())


def metric_of(series):
    """The metric that a series belongs to, and what labels it has besides."""
    if series in DESCRIBED and DESCRIBED[series].type != "histogram":
        return DESCRIBED[series], set()
    name, _, suffix = series.rpartition("_")
    if suffix in ("bucket", "sum", "count") and name in DESCRIBED and DESCRIBED[name].type == "histogram":
        return DESCRIBED[name], {"le"} if suffix == "bucket" else set()
    return None, set()


def used(expression):
    """(series, labels that are asked of it) of an expression. `by` asks them of all series in it."""
    grouped = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in labels.split(",")}
    bare = re.sub(r"\bby \([^)]*\)|\[[^]]*\]|label_values\((.*), \w+\)", lambda found: found[1] or "", expression)
    for series, selector in re.findall(r"\b([a-z]\w*_\w+|up)\b(?:\{([^}]*)\})?", re.sub(r'"[^"]*"', '""', bare)):
        if series not in WORDS or series == "up":
            yield series, grouped | set(re.findall(r"(\w+)\s*(?:=|!)", selector))


def test_the_page_is_that_of_the_code() -> None:
    assert metrics_page.PAGE.read_text() == metrics_page.page(), "python -m tests.metrics_page writes it anew"


def test_the_page_has_every_alert() -> None:
    rows = re.findall(r"^\| (Aggserver\w+) \|", metrics_page.PAGE.read_text(), re.MULTILINE)
    assert rows == [rule["alert"] for group in RULES for rule in group["rules"]]


def test_every_metric_that_the_code_names_is_in_the_page() -> None:
    """Also one that a mode alone registers."""
    quoted = re.compile(
        r'^\s+f?"((?:aggserver|apiserver|workqueue|etcd|rest_client|authenti\w+|authoriz\w+)_\w+)",', re.MULTILINE
    )
    named = {
        name
        for path in (ROOT / "aggserver").rglob("*.py")
        if "monitoring" in path.parts
        for name in quoted.findall(path.read_text())
    }
    assert len(named) > 50
    assert named - DESCRIBED.keys() == set()


@pytest.mark.parametrize("name", DESCRIBED)
def test_what_each_metric_says(name: str) -> None:
    metric = DESCRIBED[name]
    assert metric.text.endswith(".") or not metric.stability
    if not name.startswith(("process_", "python_")):
        assert metric.stability in ("STABLE", "BETA", "ALPHA")
    if name.startswith("aggserver_"):
        assert metric.stability == "ALPHA"
        assert name.endswith("_total") == (metric.type == "counter")
    assert not {"namespace", "user", "object"} & set(metric.labels)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_asks_for_what_exists(name: str) -> None:
    expression = EXPRESSIONS[name]
    found = list(used(expression))
    assert found
    for series, labels in found:
        if series == "up":
            assert labels <= TARGET
            continue
        metric, more = metric_of(series)
        assert metric is not None, f"there is no {series}"
        assert labels - set(metric.labels) - more - TARGET == set(), series


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_is_well_formed(name: str) -> None:
    """As far as can be told without Prometheus: brackets match, and rates are of what grows."""
    expression = EXPRESSIONS[name]
    open_brackets = []
    for token in TOKEN.findall(re.sub(r'"[^"]*"', '""', expression)):
        if token in "([{":
            open_brackets.append(token)
        elif token in ")]}":
            assert open_brackets.pop() + token in ("()", "[]", "{}")
    assert not open_brackets
    for series in re.findall(r"rate\((\w+)", expression):
        metric, _ = metric_of(series)
        assert metric is not None
        assert metric.type in ("counter", "histogram")
    for series in re.findall(r"(\w+)(?:\{[^}]*\})?\[", expression):
        assert f"rate({series}" in expression


def test_panels_are_in_a_grid() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    taken = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) == 23
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(identities) == len(set(identities))


def test_the_component_lists_what_is_there() -> None:
    component = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    [generator] = component["configMapGenerator"]
    listed = {*component["resources"], *generator["files"], "kustomization.yaml"}
    assert listed == {path.name for path in MONITORING.iterdir()}


def test_the_monitor_asks_the_port_of_the_service() -> None:
    monitor = yaml.safe_load((MONITORING / "service-monitor.yaml").read_text())
    service = yaml.safe_load((ROOT / "manifests" / "service.yaml").read_text())
    role = yaml.safe_load((MONITORING / "metrics-reader.yaml").read_text())
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    [rule] = role["rules"]
    assert {endpoint["path"] for endpoint in monitor["spec"]["endpoints"]} == set(rule["nonResourceURLs"])
    for endpoint in monitor["spec"]["endpoints"]:
        assert (endpoint["port"], endpoint["scheme"]) == (service["spec"]["ports"][0]["name"], "https")
    # Its name is the job, by which the alerts select.
    assert all(f'job="{service["metadata"]["name"]}"' in expression for expression in EXPRESSIONS.values())
