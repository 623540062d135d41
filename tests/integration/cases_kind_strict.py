"""Cases for `test_same_kinds.py`: what a strict decoder says of bodies and patches of the built-in kinds, definitions among them.

The bodies are in `strict.yaml`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Case, Cases, ask
from tests.integration.kinds import minimal, on, url

__all__ = ["CASES", "CRDS"]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_YAML = "application/yaml"
_APPS = "apps/deployments"
_PATCHES = {"merge": MERGE_PATCH, "strategic": "application/strategic-merge-patch+json", "json": JSON_PATCH}
_BODIES = yaml.safe_load((Path(__file__).with_name("strict.yaml")).read_text())
# As warnings they are more headers than Python's client takes.
_MANY = {f"u{number}": 1 for number in range(110)}


def _told(body: Any) -> Any:
    """Of an object nothing, nor of one that a refusal shows: what is compared is the words."""
    if body.get("kind") != "Status":
        return body["kind"]
    words = [cause["message"].rpartition("strict decoding error: ")[2] for cause in body.get("details", {}).get("causes", ())]
    return body["code"], words or body["message"]


def _each_way(method: str, where: str, body: str, kind: str = "application/json") -> Case:
    queries = ("&fieldValidation=Strict", "&fieldValidation=Warn", "&fieldValidation=Ignore", "")
    return [ask(method, f"{where}?dryRun=All{query}", body, kind=kind, pick=_told) for query in queries]


def _of_another(body: str, method: str, kind: str = "application/json") -> Case:
    """A write of a Deployment that is there."""
    made, gone = on("POST", _APPS, minimal(_APPS), compared=False), on("DELETE", _APPS, compared=False)
    return [made, *_each_way(method, url(_APPS, "$name"), body, kind), gone]


CASES: Cases = {
    **{f"strict-deployment-{name}": _each_way("POST", url(_APPS), body) for name, body in _BODIES["deployments"].items()},
    "strict-deployment-many": [ask("POST", f"{url(_APPS)}?fieldValidation=Strict", minimal(_APPS, **_MANY), pick=_told)],
    **{
        f"strict-deployment-put-{name}": _of_another(_BODIES["deployments"][name].replace('"app": "a"', '"app": "$name"'), "PUT")
        for name in ("all-kinds-of-errors", "in-order")
    },
    **{f"strict-definition-{name}": _each_way("POST", CRDS, body) for name, body in _BODIES["definitions"].items()},
    **{
        f"strict-{which.replace('/', '-').replace('.', '-')}": _each_way("POST", url(which), body)
        for which, body in _BODIES["others"].items()
    },
    **{f"strict-yaml-{name}": _each_way("POST", url(_APPS), body, _YAML) for name, body in _BODIES["yaml"].items()},
    "strict-yaml-definition": _each_way(
        "POST", CRDS, json.dumps({"zz": 1, **json.loads(_BODIES["definitions"]["properties"]), "aa": 1}), _YAML
    ),
    **{
        f"strict-patch-{kind}-{name}": _of_another(body, "PATCH", _PATCHES[kind])
        for kind, bodies in _BODIES["patches"].items()
        for name, body in bodies.items()
    },
}
