"""The same rules, the same verdicts in the same words: kube-apiserver and aggserver side by side, for x-kubernetes-validations.

What `test_same_answers.py` does for requests of every kind is done here for definitions with rules and the objects that these
judge (`cases_rules.py`), and for the definitions and samples of the corpus.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from tests import corpus
from tests.controlplane.cluster import Cluster
from tests.corpus import Sample
from tests.integration.cases_rules import CASES, DEFINITIONS, NAMESPACE, SAYS, VERDICTS
from tests.integration.comparison import Case, Seen, ask, without_order
from tests.integration.pins import check
from tests.integration.server import eventually
from tests.integration.sides import Side, both, played

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Bytes: what is larger, kube-apiserver takes seconds to serve.
_LARGEST = 600_000
# Of each sample.
_MUTATIONS = 7
# Answers to samples that tell of a rule: a run with fewer has looked at less.
_RULES_FAILED = 40


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("rules"), DEFINITIONS, (NAMESPACE,)) as pair:
        yield pair


@pytest.mark.parametrize("name", CASES)
def test_same_rules(sides: tuple[Side, Side], name: str) -> None:
    upstream, ours = played(sides, name, CASES[name])
    if name in VERDICTS:
        assert [seen.status < 300 for seen in upstream] == VERDICTS[name]
    if name in SAYS:
        told = _told(upstream[-1])
        assert [words for words in SAYS[name] if words not in told] == [], told
        assert bool(told) == bool(SAYS[name])
    check(name, upstream, ours)


def _told(seen: Seen) -> str:
    causes = seen.body.get("details", {}).get("causes", [])
    return "\n".join(f"{cause['field']}: {cause['message']}" for cause in causes)


@pytest.mark.long
def test_corpus(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Real definitions with rules, their samples, and these with a few values changed or gone."""
    ruled = [
        crd for crd in corpus.definitions() if '"x-kubernetes-validations"' in (text := json.dumps(crd)) and len(text) < _LARGEST
    ]
    resources = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"] for crd in ruled}
    samples = [sample for sample in corpus.samples() if _kind(sample) in resources]
    sampled = {_kind(sample) for sample in samples}
    served = [crd for crd in ruled if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) in sampled]
    with both(control_plane, tmp_path_factory.mktemp("corpus"), served, ("corpus",)) as sides:
        for side in sides:
            for crd in served:
                _served(side, crd["spec"])
        cases = {sample.name: _sample_case(sample, resources[_kind(sample)]) for sample in samples}
        cases |= {crd["metadata"]["name"]: _same_again(crd) for crd in ruled}
        answers = {name: played(sides, "sample", case) for name, case in cases.items()}
    different = [words for name, pair in answers.items() for words in _differences(name, *pair)]
    assert not different, "\n".join(different)
    told = [_told(seen) for upstream, _ in answers.values() for seen in upstream]
    words = set(re.findall(r'"rule": "[^"]*", "message": "([^"]*)"|"message": "([^"]*)", "rule"', json.dumps(ruled)))
    refusals = {"failed rule", "evaluating rule", *(text for pair in words for text in pair if text)}
    assert sum(any(text in each for text in refusals) for each in told) > _RULES_FAILED


def _kind(sample: Sample) -> tuple[str, str]:
    return sample.obj["apiVersion"].partition("/")[0], sample.obj["kind"]


def _url(spec: dict[str, Any], version: str) -> str:
    where = "namespaces/corpus/" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{version}/{where}{spec['names']['plural']}"


def _served(side: Side, spec: dict[str, Any]) -> None:
    """kube-apiserver answers 404 or 429 for a while to who asks for a kind that is new."""
    for version in spec["versions"]:
        if version["served"]:
            eventually(lambda: side.client.request("GET", _url(spec, version["name"])).status == 200, spec["names"]["kind"])  # noqa: B023


def _sample_case(sample: Sample, spec: dict[str, Any]) -> Case:
    target = f"{_url(spec, sample.obj['apiVersion'].partition('/')[2])}?dryRun=All&fieldValidation=Strict"
    chance = random.Random(sample.name)
    objects = [sample.obj, *(_mutated(sample.obj, chance) for _ in range(_MUTATIONS))]
    return [ask("POST", target, {**obj, "metadata": {"name": "sample"}}) for obj in objects]


def _same_again(crd: dict[str, Any]) -> Case:
    """A definition under another group, so that it is all new; its verdict is that on its schemas."""
    group = f"new.{crd['spec']['group']}"
    name = f"{crd['spec']['names']['plural']}.{group}"
    written = {**crd, "metadata": {**crd["metadata"], "name": name}, "spec": {**crd["spec"], "group": group}}
    return [ask("POST", f"{_DEFINITIONS}?dryRun=All", written, pick=lambda body: {**body, "status": None, "metadata": None})]


def _mutated(obj: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The object with one value outside its metadata gone, twice there, or another."""
    changed = copy.deepcopy(obj)
    places = list(_places({name: value for name, value in changed.items() if name not in ("apiVersion", "kind", "metadata")}))
    if places:
        _change(*chance.choice(places), chance)
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield value, key
        yield from _places(child)


def _change(parent: Any, key: Any, chance: random.Random) -> None:
    value = parent[key]
    match chance.randrange(3):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.append(copy.deepcopy(value))
        case 1:
            parent[chance.choice([str(key)[::-1], "name", "value", "type", "ref"])] = copy.deepcopy(value)
        case _:
            parent[key] = _other(value, chance)


def _other(value: Any, chance: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return chance.choice([0, -1, value + 1, value * 1000])
        case str():
            return chance.choice(["", value.upper(), f"{value}x", f"{value}*/", "https://x:y", value[:1]])
        case list():
            return []
        case dict():
            return {}
        case _:
            return ""


def _differences(name: str, upstream: list[Seen], ours: list[Seen]) -> list[str]:
    pairs = zip(map(without_order, upstream), map(without_order, ours), strict=True)
    return [
        f"{name}: {where or 'answer'}: kube-apiserver has {left}, aggserver {right}"
        for seen in pairs
        for where, left, right in _apart(*map(asdict, seen))
    ]


def _apart(left: Any, right: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from _apart(left.get(key), right.get(key), f"{where}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _apart(one, other, f"{where}[{index}]")
    elif left != right:
        yield where, left, right
