"""Definitions and objects of real projects, through a whole server: the verdicts and the words of kube-apiserver."""

from __future__ import annotations

import json
from typing import Any

from tests import corpus
from tests.corpus import Sample
from tests.fakes.server import LocalServer

# The webhook was not running.
CONVERSION = {"tekton-pipeline-20"}


def errors(message: str) -> list[str]:
    """The parts of a message, sorted, since upstream's order is that of a Go map."""
    before, words, told = message.partition(" is invalid: ")
    return [before + words, *sorted(told.strip("[]").split(", "))]


async def told(server: LocalServer, resources: dict[tuple[str, str], tuple[str, bool]], sample: Sample) -> str:
    """What the server says of the sample, '' if it takes it."""
    obj = sample.obj
    plural, namespaced = resources[obj["apiVersion"].partition("/")[0], obj["kind"]]
    namespace = obj.get("metadata", {}).get("namespace") or "default"
    where = f"namespaces/{namespace}/{plural}" if namespaced else plural
    target = f"/apis/{obj['apiVersion']}/{where}?dryRun=All&fieldValidation=Strict"
    answer = await server.client().request("POST", target, body=json.dumps(obj).encode())
    return "" if answer.status == 201 else answer.message


async def test_verdicts() -> None:
    samples = corpus.samples()
    server = LocalServer()
    await server.start()
    try:
        for name in {(sample.obj.get("metadata") or {}).get("namespace") for sample in samples} - {None, "default"}:
            await server.namespace(name)
        resources: dict[tuple[str, str], tuple[str, bool]] = {}
        for crd in corpus.definitions():
            server.serve(crd)
            spec: dict[str, Any] = crd["spec"]
            resources[spec["group"], spec["names"]["kind"]] = spec["names"]["plural"], spec["scope"] == "Namespaced"
        answers = {sample.name: errors(await told(server, resources, sample)) for sample in samples}
    finally:
        await server.stop()
    assert len(answers) == len(samples) > 300
    assert {sample.name for sample in samples if answers[sample.name] != errors(sample.message)} == CONVERSION
