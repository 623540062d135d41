"""`--controllers`, as docs/controllers.md shows it and as kube-controller-manager takes it."""

from __future__ import annotations

import shlex

import pytest

from aggserver.options import OptionsError, is_controller_enabled, parse
from aggserver.options.controllers import CONTROLLERS

GARBAGE, NAMESPACE = "garbage-collector-controller", "namespace-controller"

# Commands of docs/controllers.md, and the controllers that do not run.
SHOWN = {
    "aggserver dev --controllers '*,-garbage-collector-controller'": {GARBAGE},
    "aggserver dev --controllers namespace-controller": {*CONTROLLERS} - {NAMESPACE},
    "aggserver dev --controllers=-namespace-controller": {*CONTROLLERS},
    "aggserver dev --pods=run": set(),
    "aggserver dev --pods=run --job-duration=30s": set(),
    "aggserver dev --pods=pending": set(),
}
RUNS = list(SHOWN)


def enabled(command: str) -> set[str]:
    options = parse(shlex.split(command)[1:], {})
    return {name for name in CONTROLLERS if is_controller_enabled(name, options.controllers)}


@pytest.mark.parametrize("command", SHOWN)
def test_commands_of_the_page(command: str) -> None:
    assert enabled(command) == {*CONTROLLERS} - SHOWN[command]


CASES: dict[str, tuple[str, set[str]]] = {
    # name: (the value, the controllers that run)
    "all": ("*", {*CONTROLLERS}),
    "an older name": ("garbagecollector", {GARBAGE}),
    "without an older name": ("*,-namespace", {*CONTROLLERS} - {NAMESPACE}),
    "the first that names it counts": ("-namespace,*,namespace-controller", {*CONTROLLERS} - {NAMESPACE}),
    "none": ("", set()),
}


@pytest.mark.parametrize("name", CASES)
def test_choices(name: str) -> None:
    value, wanted = CASES[name]
    assert enabled(f"aggserver dev --controllers={value}") == wanted


def test_by_default_all() -> None:
    assert enabled("aggserver dev") == {*CONTROLLERS}


def test_an_unknown_controller() -> None:
    with pytest.raises(OptionsError, match='"-podgc" is not in the list of known controllers: garbage-collector-controller, '):
        parse(["dev", "--controllers=*,-podgc"], {})


def test_pods_need_their_kind() -> None:
    assert parse(["dev", "--pods=run"], {}).pods == "run"
    assert parse(["dev", "--pods=run", "--job-duration=30s"], {}).job_seconds == 30
    with pytest.raises(OptionsError, match="--pods run has no meaning with --kinds none"):
        parse(["dev", "--pods=run", "--kinds=none"], {})
    with pytest.raises(OptionsError, match="--job-duration has no meaning without --pods run"):
        parse(["dev", "--pods=pending", "--job-duration=30s"], {})


def test_a_cluster_has_its_own() -> None:
    with pytest.raises(OptionsError, match="--controllers"):
        parse(["serve", "--controllers=*"], {})
