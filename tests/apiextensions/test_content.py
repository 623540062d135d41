"""Which changes of a definition change how its objects look."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.apiextensions.content import content_digest, same_content
from aggserver.apiextensions.definition import parse
from tests.fakes.definitions import CRONTABS

Edit = Callable[[dict[str, Any]], None]


def version(edit: Callable[[dict[str, Any]], Any]) -> Edit:
    def applied(spec: dict[str, Any]) -> None:
        edit(spec["versions"][0])

    return applied


def schema(edit: Callable[[dict[str, Any]], Any]) -> Edit:
    return version(lambda first: edit(first["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]))


CHANGES: dict[str, tuple[Edit, bool]] = {
    # name: (change of spec, whether objects look the same)
    "nothing": (lambda spec: None, True),
    "short names": (lambda spec: spec["names"].update(shortNames=["x"]), True),
    "columns": (version(lambda v: v.update(additionalPrinterColumns=[])), True),
    "a description": (schema(lambda p: p["cronSpec"].update(description="when")), True),
    "a title": (schema(lambda p: p["cronSpec"].update(title="when")), True),
    "deprecation": (version(lambda v: v.update(deprecated=True, deprecationWarning="soon")), True),
    "a property that is called description": (schema(lambda p: p.update(description={"type": "string"})), False),
    "a default": (schema(lambda p: p["cronSpec"].update(default="*")), False),
    "a default of a member that is called title": (
        schema(lambda p: p.update(x={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"title": "a"}})),
        False,
    ),
    "a rule": (schema(lambda p: p["cronSpec"].update({"x-kubernetes-validations": [{"rule": "self != ''"}]})), False),
    "a bound": (schema(lambda p: p["cronSpec"].update(maxLength=99)), False),
    "a version": (
        lambda spec: spec["versions"].append({**copy.deepcopy(spec["versions"][0]), "name": "v9", "storage": False}),
        False,
    ),
    "a version that is no longer served": (version(lambda v: v.update(served=False)), False),
    "conversion": (
        lambda spec: spec.update(
            conversion={
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://x.example.com/"}, "conversionReviewVersions": ["v1"]},
            }
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    edit, same = CHANGES[name]
    crd = copy.deepcopy(dict(CRONTABS))
    edit(crd["spec"])
    before, after = parse(CRONTABS), parse(crd)
    assert same_content(before, after) is same
    assert (content_digest(before) == content_digest(after)) is same
