"""What the tests of a move share: a definition, objects of the host, and values as they are stored here."""

from __future__ import annotations

from typing import Any

from aggserver.apiextensions.definition import Definition, parse
from aggserver.meta import codec

PATH = "/apis/stable.example.com/v1/crontabs"
PREFIX = "/stable.example.com/crontabs/"


def definition(*versions: tuple[str, bool, bool], scope: str = "Cluster") -> Definition:
    """versions: (name, served, storage)."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return parse(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "crontabs.stable.example.com"},
            "spec": {
                "group": "stable.example.com",
                "names": {"plural": "crontabs", "kind": "CronTab"},
                "scope": scope,
                "versions": [
                    {"name": name, "served": served, "storage": storage, "schema": schema}
                    for name, served, storage in versions or (("v1", True, True),)
                ],
            },
        }
    )


def crontab(name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name, **metadata},
        "spec": {} if spec is None else spec,
    }


def decoded(value: bytes | None) -> Any:
    return None if value is None else codec.decode_stored(value)
