"""Answering: a virtual resource with nothing but a `create`, whose function answers the object that it gets.

A question needs no name, and neither does its answer. What its schema refuses is refused before the function is called.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.questions import Questions
from aggserver.registry.rest import WriteRequest
from aggserver.registry.strategy import Strategy
from aggserver.registry.write import CREATED, Write, final
from aggserver.resources.commit import asked
from aggserver.resources.source import ObjectSource

__all__ = ["Answering"]


class Answering(Questions):
    """strategy: of the resource, for its schema."""

    def __init__(self, source: ObjectSource, strategy: Strategy, clock: Callable[[], float]) -> None:
        super().__init__(None, clock)
        self._source = source
        self._strategy = strategy

    async def check(self, request: WriteRequest, obj: JSONObject) -> None:
        context, info = request.context, self._source.info
        self._strategy.check_context(context)
        write = Write.of(request, CREATED)
        # The rules for names stand in the way of one that has none.
        named = obj if obj["metadata"].get("name") else {**obj, "metadata": {**obj["metadata"], "name": "question"}}
        verdict = await final(context, await write.aside(self._strategy.validate, named))
        context.warnings.extend(verdict.warnings)
        if verdict.errors:
            raise errors.invalid(info.group, info.kind, obj["metadata"].get("name") or "", verdict.errors)

    async def answer(self, request: WriteRequest, obj: JSONObject) -> JSONObject:
        dry_run = request.options.dry_run
        if dry_run:
            self._source.refuse_dry_run("create")
        return await self._source.answer(asked(request.context, dry_run=dry_run), obj)
