"""Rules of definitions: kube-apiserver's answers (tests/cases/crd_validation.yaml), and manifests of any shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aggserver.apiextensions import conversion_rules, validation
from aggserver.apiextensions.conditions import stored_versions
from tests import corpus

TABLE = yaml.safe_load((Path(__file__).parents[1] / "cases" / "crd_validation.yaml").read_text())
BASE = TABLE["base"]
ESTABLISHED = BASE | {"status": {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}}


def merged(target: Any, patch: Any) -> Any:
    if patch == "$schema":
        return BASE["spec"]["versions"][0]["schema"]
    if isinstance(patch, list):
        return [merged(None, item) for item in patch]
    if not isinstance(patch, dict):
        return patch
    target = target if isinstance(target, dict) else {}
    return target | {key: merged(target.get(key), value) for key, value in patch.items()}


def expected(case: dict[str, Any]) -> list[str]:
    return [text.replace("$label", TABLE["label"]).replace("$subdomain", TABLE["subdomain"]) for text in case["errors"]]


def with_stored_versions(crd: dict[str, Any]) -> dict[str, Any]:
    """As the strategy hands it over."""
    return crd | {"status": crd.get("status", {}) | {"storedVersions": stored_versions(crd)}}


@pytest.mark.parametrize("case", TABLE["create"], ids=lambda case: case["name"])
def test_validate(case: dict[str, Any]) -> None:
    crd = with_stored_versions(merged(BASE, case["patch"]))
    assert [str(error) for error in validation.validate(crd)] == expected(case)


@pytest.mark.parametrize("case", TABLE["update"], ids=lambda case: case["name"])
def test_validate_update(case: dict[str, Any]) -> None:
    crd = with_stored_versions(merged(ESTABLISHED, case["patch"]))
    assert [str(error) for error in validation.validate_update(crd, ESTABLISHED)] == expected(case)


def test_not_yet_established() -> None:
    crd = merged(BASE, {"spec": {"scope": "Cluster", "names": {"kind": "CronJob"}}})
    assert validation.validate_update(crd, BASE) == []


OLD_SINS = {
    "preserveUnknownFields": {"spec": {"preserveUnknownFields": True}},
    "no schema where it is not served": {"spec": {"versions": [{"name": "v1", "served": False, "storage": True}]}},
    "nine selectable fields": {
        "spec": {
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {name: {"type": "string"} for name in "abcdefghi"}}
                    },
                    "selectableFields": [{"jsonPath": f".{name}"} for name in "abcdefghi"],
                }
            ]
        }
    },
    "no approval": {"metadata": {"name": "crontabs.x.k8s.io"}, "spec": {"group": "x.k8s.io"}},
}


@pytest.mark.parametrize("patch", OLD_SINS.values(), ids=OLD_SINS)
def test_what_was_accepted_before_stays_so(patch: dict[str, Any]) -> None:
    crd = merged(BASE, patch)
    assert validation.validate(crd) != []
    assert validation.validate_update(crd, crd) == []


def test_other_types_are_all_the_answer() -> None:
    crd = merged(BASE, {"spec": {"group": 5, "scope": [], "names": "x", "versions": [{"name": "v1", "served": "yes"}]}})
    assert [str(error) for error in validation.validate(crd)] == [
        "spec.group: Invalid value: 5: must be a string",
        "spec.scope: Invalid value: []: must be a string",
        'spec.names: Invalid value: "x": must be an object',
        'spec.versions[0].served: Invalid value: "yes": must be a boolean',
    ]


def test_another_api_version() -> None:
    crd = BASE | {"apiVersion": "apiextensions.k8s.io/v1beta1"}
    assert [str(error) for error in validation.validate(crd)] == [
        'apiVersion: Unsupported value: "apiextensions.k8s.io/v1beta1": supported values: "apiextensions.k8s.io/v1"'
    ]


# Of no more than the outer form of a certificate.
PEM = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BZ3dBREFBQXdJQUFBPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="

BUNDLES = {
    "none": ("", True),
    "white space": ("Cg==", False),
    "PEM": (PEM, True),
    "text": ("eA==", False),
    "no base64": ("%", False),
}


@pytest.mark.parametrize(("bundle", "valid"), BUNDLES.values(), ids=BUNDLES)
def test_ca_bundle(bundle: str, valid: bool) -> None:
    assert (conversion_rules.ca_bundle_problem({"webhook": {"clientConfig": {"caBundle": bundle}}}) == "") is valid


@pytest.mark.long
def test_corpus() -> None:
    for crd in corpus.definitions():
        assert [str(error) for error in validation.validate(crd)] == [], crd["metadata"]["name"]
        assert validation.validate_update(crd, crd) == []


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, member in inner for path in paths(member, (*at, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], by)
    return copied


FULL = merged(
    ESTABLISHED,
    {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {
            "names": {"shortNames": ["ct"], "categories": ["all"], "listKind": "CronTabList"},
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/x", "port": 1}, "caBundle": PEM},
                    "conversionReviewVersions": ["v1"],
                },
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "deprecated": True,
                    "deprecationWarning": "old",
                    "schema": "$schema",
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}},
                    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.color"}],
                    "selectableFields": [{"jsonPath": ".spec.color"}],
                }
            ],
        },
    },
)
JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from([[], {}, [None], [[]], {"x": None}, [5], 1.5])
)


@given(st.sampled_from(paths(FULL)), JUNK)
def test_no_shape_is_too_strange(path: tuple[Any, ...], junk: Any) -> None:
    crd = replaced(FULL, path, junk)
    for error in validation.validate(crd) + validation.validate_update(crd, FULL):
        assert str(error)
