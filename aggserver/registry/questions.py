"""Questions: objects that are created, answered and not stored, such as a SubjectAccessReview.

They need no name. They are prepared, admitted and checked as other objects are that are created.
Source: k8s.io/kubernetes pkg/registry/authorization/subjectaccessreview/rest.go, k8s.io/apiserver
pkg/endpoints/handlers/create.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.merge.managed_fields import FieldManager
from aggserver.meta import codec, times
from aggserver.meta.json_types import JSONObject
from aggserver.registry import preparation
from aggserver.registry.rest import WriteRequest
from aggserver.registry.stored import StoredObject

__all__ = ["Questions"]


class Questions:
    """`Creater` of one kind; a subclass answers. fields: None without managedFields. clock: seconds since the epoch."""

    def __init__(self, fields: FieldManager | None, clock: Callable[[], float]) -> None:
        self._fields = fields
        self._clock = clock

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        """The answer. Mutating webhooks may change the question before it is checked."""
        metadata = obj["metadata"]
        preparation.drop_system_fields(metadata)
        namespace = request.context.namespace
        preparation.place_in_namespace(metadata, namespace, namespaced=bool(namespace))
        if self._fields is not None:
            self._fields.update(None, obj, request.options.field_manager, times.format_time(self._clock()))
        await request.admission.mutate(obj, None)
        await self.check(request, obj)
        await request.admission.validate(obj, None)
        answer = await self.answer(request, obj)
        return StoredObject("", codec.encode_json({"kind": obj["kind"], "apiVersion": obj["apiVersion"], **answer}), 0)

    async def check(self, request: WriteRequest, obj: JSONObject) -> None:
        """Raises StatusError for a question that can't be answered. May fill in what is missing."""

    async def answer(self, request: WriteRequest, obj: JSONObject) -> JSONObject:
        """The object with the answer; kind and apiVersion are added."""
        raise NotImplementedError
