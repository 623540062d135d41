"""Metadata: the metadata of an object for users' code, over the JSON object of it.

What this class has no attribute for (managedFields, selfLink) is kept and encoded again. A name or a namespace that is not known
is '', as in Kubernetes. Works as a field of dataclasses, attrs classes, pydantic models and msgspec Structs. Pure.
Source: k8s.io/apimachinery pkg/apis/meta/v1/types.go (ObjectMeta), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from aggserver.meta.json_types import JSONMapping, JSONObject, json_copy
from aggserver.typed.texts import time_of, time_text

__all__ = ["Metadata"]


class Metadata:
    """name, namespace: '' where there is none, such as the namespace of a cluster-wide object. created: when the object was made,
    with a time zone. uid, revision (the resourceVersion, an opaque text), generation: set by the server; a virtual resource may
    give its own.
    """

    __slots__ = ("_json", "_opened")

    def __init__(
        self,
        name: str = "",
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        created: datetime | None = None,
        uid: str | None = None,
        revision: str | None = None,
        generation: int | None = None,
        generate_name: str | None = None,
        finalizers: Iterable[str] | None = None,
        owner_references: Iterable[Mapping[str, Any]] | None = None,
    ) -> None:
        # Members that were handed out -> whether they were there before.
        self._opened: dict[str, bool] = {}
        self._json: JSONObject = {}
        given = {
            "name": name,
            "generateName": generate_name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": revision,
            "generation": generation,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "finalizers": list(finalizers or ()),
            "ownerReferences": [dict(each) for each in owner_references or ()],
        }
        self._json.update({member: value for member, value in given.items() if value})
        if created is not None:
            self.created = created

    @classmethod
    def from_json(cls, metadata: JSONMapping) -> Metadata:
        """Of the `metadata` of an object, which is never changed by it."""
        made = cls.__new__(cls)
        made._json, made._opened = dict(metadata), {}
        return made

    def to_json(self) -> JSONObject:
        """A copy for an object. What was empty and never given is left out."""
        if not self._opened:
            return dict(self._json)
        return {
            member: json_copy(value) if member in self._opened else value
            for member, value in self._json.items()
            if value or self._opened.get(member, True)
        }

    def _text(self, member: str) -> str:
        return self._json.get(member) or ""

    def _set(self, member: str, value: Any) -> None:
        if value:
            self._json[member] = value
        else:
            self._json.pop(member, None)

    def _open(self, member: str, empty: Any) -> Any:
        if member not in self._opened:
            self._opened[member] = member in self._json
            self._json[member] = json_copy(self._json.get(member)) or empty
        return self._json[member]

    @property
    def name(self) -> str:
        return self._text("name")

    @name.setter
    def name(self, value: str) -> None:
        self._set("name", value)

    @property
    def generate_name(self) -> str:
        return self._text("generateName")

    @generate_name.setter
    def generate_name(self, value: str) -> None:
        self._set("generateName", value)

    @property
    def namespace(self) -> str:
        return self._text("namespace")

    @namespace.setter
    def namespace(self, value: str | None) -> None:
        self._set("namespace", value)

    @property
    def uid(self) -> str:
        return self._text("uid")

    @uid.setter
    def uid(self, value: str) -> None:
        self._set("uid", value)

    @property
    def revision(self) -> str:
        """The resourceVersion."""
        return self._text("resourceVersion")

    @revision.setter
    def revision(self, value: str) -> None:
        self._set("resourceVersion", value)

    @property
    def generation(self) -> int:
        """How often the spec has changed, from 1 on; 0 if that is not counted."""
        return self._json.get("generation") or 0

    @generation.setter
    def generation(self, value: int) -> None:
        self._set("generation", value)

    @property
    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self._open("labels", {})
        return found

    @labels.setter
    def labels(self, value: Mapping[str, str]) -> None:
        self._open("labels", {})
        self._json["labels"] = dict(value)

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self._open("annotations", {})
        return found

    @annotations.setter
    def annotations(self, value: Mapping[str, str]) -> None:
        self._open("annotations", {})
        self._json["annotations"] = dict(value)

    @property
    def finalizers(self) -> list[str]:
        found: list[str] = self._open("finalizers", [])
        return found

    @finalizers.setter
    def finalizers(self, value: Iterable[str]) -> None:
        self._open("finalizers", [])
        self._json["finalizers"] = list(value)

    @property
    def owner_references(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._open("ownerReferences", [])
        return found

    @owner_references.setter
    def owner_references(self, value: Iterable[Mapping[str, Any]]) -> None:
        self._open("ownerReferences", [])
        self._json["ownerReferences"] = [dict(each) for each in value]

    @property
    def created(self) -> datetime | None:
        return self._time("creationTimestamp")

    @created.setter
    def created(self, value: datetime | None) -> None:
        # Whole seconds: a fraction is not allowed in metadata.
        self._set("creationTimestamp", None if value is None else time_text(value, whole_seconds=True))

    @property
    def deletion_timestamp(self) -> datetime | None:
        """When the deletion was requested of an object that is kept until its finalizers are gone."""
        return self._time("deletionTimestamp")

    def _time(self, member: str) -> datetime | None:
        text = self._text(member)
        return time_of(text) if text else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metadata) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"<Metadata {where}{self.name or self.generate_name}>"

    def __copy__(self) -> Metadata:
        return Metadata.from_json(self.to_json())

    def __deepcopy__(self, memo: Any) -> Metadata:
        return Metadata.from_json(json_copy(self.to_json()))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> dict[str, Any]:
        """For pydantic: an instance or the JSON object; dumped as the latter. A core schema is a dict, so nothing is imported."""
        return {
            "type": "function-plain",
            "function": {"type": "no-info", "function": cls._given},
            "serialization": {"type": "function-plain", "function": cls.to_json},
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "object"}

    @classmethod
    def _given(cls, value: Any) -> Metadata:
        if isinstance(value, Metadata):
            return value
        if isinstance(value, Mapping):
            return cls.from_json(value)
        raise ValueError("must be a Metadata")
