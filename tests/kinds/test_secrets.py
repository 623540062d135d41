"""Secrets that lack what their type asks for; `tests/integration/cases_kind_rules.py` asks kube-apiserver the same."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from aggserver.kinds.catalog import KINDS
from aggserver.kinds.strategy import KindStrategy

STRATEGY = KindStrategy(next(kind for kind in KINDS if kind.name == "Secret"))
TOKEN, NAME = "service-account-token", "kubernetes.io/service-account.name"
CASES: dict[str, tuple[str, dict[str, str], dict[str, str], list[str]]] = {
    # type, annotations, data
    "an account": (TOKEN, {NAME: "a"}, {}, []),
    "no account": (TOKEN, {}, {}, [f"metadata.annotations[{NAME}]"]),
    "an empty account": (TOKEN, {NAME: ""}, {}, [f"metadata.annotations[{NAME}]"]),
    "half a pair": ("tls", {}, {"tls.crt": ""}, ["data[tls.key]"]),
    "no password": ("basic-auth", {}, {"username": ""}, []),
    "neither": ("basic-auth", {}, {}, ["data[username]", "data[password]"]),
    "an empty key": ("ssh-auth", {}, {"ssh-privatekey": ""}, ["data[ssh-privatekey]"]),
    "no configuration": ("dockercfg", {}, {}, ["data[.dockercfg]"]),
    "no newer one": ("dockerconfigjson", {}, {}, ["data[.dockerconfigjson]"]),
    "of others": ("other", {}, {}, []),
}


@pytest.mark.parametrize(("kind", "annotations", "data", "missing"), CASES.values(), ids=CASES)
def test_what_is_missing(kind: str, annotations: dict[str, str], data: dict[str, str], missing: list[str]) -> None:
    metadata = {"name": "s", "namespace": "default", "annotations": annotations}
    secret: dict[str, Any] = {"metadata": metadata, "type": f"kubernetes.io/{kind}", "data": data}
    assert [(each.field, each.body()) for each in STRATEGY.validate(secret).errors] == [
        (field, "Required value") for field in missing
    ]
    # One of before can still be changed.
    assert not STRATEGY.validate_update({**secret, "metadata": {**metadata, "labels": {"a": "b"}}}, secret).errors
    assert len(STRATEGY.validate_update(secret, {**secret, "type": "Opaque"}).errors) == len(missing) + 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param('{"auths": {}}', "", id="an object"),
        pytest.param("null", "", id="null"),
        pytest.param("", "unexpected end of JSON input", id="empty"),
        pytest.param("{]", "invalid character ']' looking for beginning of object key string", id="malformed"),
        pytest.param("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}", id="a list"),
    ],
)
@pytest.mark.parametrize("kind", ["dockercfg", "dockerconfigjson"])
def test_docker_configurations_are_json(kind: str, text: str, why: str) -> None:
    data = {f".{kind}": base64.b64encode(text.encode()).decode()}
    secret = {"metadata": {"name": "s", "namespace": "default"}, "type": f"kubernetes.io/{kind}", "data": data}
    told = [str(problem) for problem in STRATEGY.validate(secret).errors]
    assert told == ([f'data[.{kind}]: Invalid value: "<secret contents redacted>": {why}'] if why else [])
