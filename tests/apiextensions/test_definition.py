"""Definition: what a manifest comes to, with upstream's defaults, or all that is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.apiextensions import manifest
from aggserver.apiextensions.definition import (
    ConversionSettings,
    Definition,
    DefinitionError,
    Names,
    Version,
    WebhookClient,
    client_config,
    parse,
)
from aggserver.publish.table import Column
from aggserver.registry.custom_resource import ScalePaths
from aggserver.webhook.config import ClientConfig, ServiceReference
from tests import corpus


def crd(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        }
        | spec,
    }


def test_least() -> None:
    assert parse(crd()) == Definition(
        name="crontabs.stable.example.com",
        group="stable.example.com",
        names=Names(plural="crontabs", singular="crontab", kind="CronTab", list_kind="CronTabList"),
        namespaced=True,
        versions=(Version(name="v1", served=True, storage=True),),
    )


def test_everything() -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    full = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": schema,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"},
        },
        "additionalPrinterColumns": [
            {"name": "A", "type": "integer", "jsonPath": ".a", "description": "d", "format": "int32", "priority": 1}
        ],
        "selectableFields": [{"jsonPath": ".spec.a"}],
        "deprecated": True,
        "deprecationWarning": "old",
    }
    webhook = {
        "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "/p", "port": 8443}, "caBundle": "eA=="},
        "conversionReviewVersions": ["v1", "v1beta1"],
    }
    definition = parse(
        crd(
            scope="Cluster",
            names={
                "plural": "crontabs",
                "singular": "tab",
                "kind": "CronTab",
                "listKind": "Tabs",
                "shortNames": ["ct"],
                "categories": ["all"],
            },
            versions=[{"name": "v1alpha1", "served": False, "storage": False, "schema": schema}, full],
            conversion={"strategy": "Webhook", "webhook": webhook},
            preserveUnknownFields=True,
        )
    )
    assert definition.names == Names("crontabs", "tab", "CronTab", "Tabs", ("ct",), ("all",))
    assert not definition.namespaced
    assert definition.versions[0] == Version("v1alpha1", served=False, storage=False, schema={"type": "object"})
    assert definition.storage_version == Version(
        name="v1",
        served=True,
        storage=True,
        schema={"type": "object"},
        status_subresource=True,
        scale=ScalePaths(".spec.n", ".status.n", ".status.s"),
        columns=(Column("A", "integer", ".a", "d", "int32", 1),),
        selectable_fields=(".spec.a",),
        deprecated=True,
        deprecation_warning="old",
    )
    client = WebhookClient(service_namespace="n", service_name="s", service_path="/p", service_port=8443, ca_bundle="eA==")
    assert definition.conversion == ConversionSettings(client, ("v1", "v1beta1"))
    assert definition.preserve_unknown_fields


def test_how_a_webhook_is_called() -> None:
    service = WebhookClient(service_namespace="n", service_name="s", service_path="/p", service_port=8443, ca_bundle="eA==")
    assert client_config(service) == ClientConfig(service=ServiceReference("n", "s", "/p", 8443), ca_bundle=b"x")
    assert client_config(WebhookClient("https://a", ca_bundle="no base64")) == ClientConfig("https://a", ca_bundle=b"no base64")


def test_nulls_are_missing() -> None:
    nulls = dict.fromkeys(
        ["schema", "subresources", "additionalPrinterColumns", "selectableFields", "deprecated", "deprecationWarning"]
    )
    definition = parse(
        crd(
            names={"plural": "crontabs", "kind": "CronTab", "singular": None, "listKind": None, "shortNames": None},
            versions=[{"name": "v1", "served": True, "storage": True} | nulls],
            conversion=None,
            preserveUnknownFields=None,
        )
    )
    assert definition == parse(crd())


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "no object": ([], ["<nil>: Invalid value: []: must be an object"]),
    "nothing in it": (
        {},
        [
            'apiVersion: Unsupported value: "": supported values: "apiextensions.k8s.io/v1"',
            'kind: Unsupported value: "": supported values: "CustomResourceDefinition"',
        ],
    ),
    "v1beta1": (
        crd() | {"apiVersion": "apiextensions.k8s.io/v1beta1"},
        ['apiVersion: Unsupported value: "apiextensions.k8s.io/v1beta1": supported values: "apiextensions.k8s.io/v1"'],
    ),
    "no spec": (
        crd() | {"spec": None},
        [
            "spec.group: Required value",
            "spec.scope: Required value",
            "spec.versions: Invalid value: null: must have exactly one version marked as storage version",
            "spec.names.plural: Required value",
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
        ],
    ),
    "wrong types, all of them": (
        crd(group=1, versions=[{"name": None, "schema": {"openAPIV3Schema": {"properties": {"a": {"type": 1}}}}}, 5]),
        [
            "spec.group: Invalid value: 1: must be a string",
            "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Invalid value: 1: must be a string",
            "spec.versions[1]: Invalid value: 5: must be an object",
        ],
    ),
}


@pytest.mark.parametrize(("value", "texts"), REFUSED.values(), ids=REFUSED)
def test_refused(value: Any, texts: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(value)
    assert [str(error) for error in caught.value.errors] == texts
    assert str(caught.value) == "; ".join(texts)


def test_older_than_the_rules() -> None:
    """No schema, columns without a type: not to be written, but to be served."""
    parse(crd(versions=[{"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": [{"name": "a"}]}]))


def test_corpus() -> None:
    for each in corpus.definitions():
        assert parse(each).name == each["metadata"]["name"]


NAMES = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "group",
    "names",
    "plural",
    "scope",
    "versions",
    "name",
    "schema",
    "openAPIV3Schema",
    "storage",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=15,
)


@given(JSON)
def test_any_json(value: Any) -> None:
    with pytest.raises(DefinitionError):
        parse(value)


@given(
    st.fixed_dictionaries(
        {"apiVersion": st.just(manifest.API_VERSION), "kind": st.just(manifest.KIND), "spec": JSON, "metadata": JSON}
    )
)
def test_any_spec(value: Any) -> None:
    with pytest.raises(DefinitionError):
        parse(value)


def test_prune() -> None:
    value = crd(
        versions=[
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "x": 1,
                "deprecationWarning": None,
                "subresources": {"status": {"y": 1}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "xml": {},
                        "default": {"xml": 1, "z": None},
                        "properties": {"xml": {"deprecated": True, "items": {"readOnly": True}}, "b": None},
                        "anyOf": [{"x-foo": 1}],
                        "additionalProperties": True,
                        "x-kubernetes-validations": [
                            {"rule": "true", "message": "", "reason": "", "fieldPath": None, "optionalOldSelf": False, "v": ""}
                        ],
                    }
                },
            }
        ],
        zzz=1,
    )
    assert manifest.prune(value) == [
        "spec.versions[0].x",
        "spec.versions[0].subresources.status.y",
        "spec.versions[0].schema.openAPIV3Schema.xml",
        "spec.versions[0].schema.openAPIV3Schema.properties.xml.deprecated",
        "spec.versions[0].schema.openAPIV3Schema.properties.xml.items.readOnly",
        "spec.versions[0].schema.openAPIV3Schema.anyOf[0].x-foo",
        "spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations[0].v",
        "spec.zzz",
    ]
    assert value["spec"]["versions"] == [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "default": {"xml": 1, "z": None},
                    "properties": {"xml": {"items": {}}, "b": {}},
                    "anyOf": [{}],
                    "additionalProperties": True,
                    "x-kubernetes-validations": [{"rule": "true", "reason": "", "optionalOldSelf": False}],
                }
            },
        }
    ]
