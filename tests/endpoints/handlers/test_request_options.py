"""Query parameters of lists, writes and tables: which are accepted, and the errors for the others."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.endpoints.handlers import options
from aggserver.meta.errors import StatusError
from aggserver.registry.rest import DeleteOptions, WriteOptions
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, WIDGETS_PATH
from tests.fakes.server import LocalServer

LIST = 'ListOptions.meta.k8s.io "" is invalid: '
MATCH = LIST + "resourceVersionMatch: "

REFUSED_LISTS: dict[str, tuple[str, int, str]] = {
    # name: (query, code, message)
    "match without a version": (
        "resourceVersionMatch=Exact",
        422,
        MATCH + "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    ),
    "match with continue": (
        "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
        422,
        MATCH + "Forbidden: resourceVersionMatch is forbidden when continue is provided",
    ),
    "match that is none": (
        "resourceVersionMatch=Some&resourceVersion=1",
        422,
        MATCH + 'Unsupported value: "Some": supported values: "Exact", "NotOlderThan", ""',
    ),
    "exactly any": (
        "resourceVersionMatch=Exact&resourceVersion=0",
        422,
        MATCH + 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    ),
    "two errors": (
        "resourceVersionMatch=Some",
        422,
        LIST + "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, "
        'resourceVersionMatch: Unsupported value: "Some": supported values: "Exact", "NotOlderThan", ""]',
    ),
    "initial events": (
        "sendInitialEvents=true",
        422,
        LIST + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
    ),
    "limit that is no number": ("limit=many", 400, 'strconv.ParseInt: parsing "many": invalid syntax'),
    "limit past 64 bits": (f"limit={1 << 63}", 400, f'strconv.ParseInt: parsing "{1 << 63}": value out of range'),
    "labels that can't be read": ("labelSelector=a%3D%3D%3Db", 400, ""),
    "fields that can't be read": ("fieldSelector=a", 400, "invalid selector: 'a'; can't understand 'a'"),
    "a field that is none": ("fieldSelector=spec.x%3D1", 400, "field label not supported: spec.x"),
    "a version that is none": ("resourceVersion=-1", 400, ""),
    "a continue token that is none": ("continue=x", 400, ""),
}


@pytest.mark.parametrize("name", REFUSED_LISTS)
async def test_refused_lists(server: LocalServer, client: Client, name: str) -> None:
    server.serve(CRONTABS)
    query, code, message = REFUSED_LISTS[name]
    answer = await client.get(f"{CRONTABS_PATH}?{query}")
    assert answer.status == code, answer.body
    assert message in ("", answer.message)


async def test_namespace_is_no_field_of_what_has_none(server: LocalServer, client: Client) -> None:
    server.serve(WIDGETS)
    answer = await client.get(f"{WIDGETS_PATH}?fieldSelector=metadata.namespace%3Da")
    assert answer.message == "field label not supported: metadata.namespace"


WRITES: dict[str, tuple[str, dict[str, list[str]], str, WriteOptions | str]] = {
    # name: (kind, query, user agent, expected options)
    "nothing said": ("CreateOptions", {}, "kubectl/v1.36 (linux)", WriteOptions(False, "kubectl", "Warn")),
    "everything said": (
        "PatchOptions",
        {"dryRun": ["All"], "fieldManager": ["me"], "fieldValidation": ["Strict"]},
        "curl/8",
        WriteOptions(True, "me", "Strict"),
    ),
    "long agent": ("UpdateOptions", {}, "x" * 200, WriteOptions(False, "x" * 128, "Warn")),
    "some dry run": ("CreateOptions", {"dryRun": ["Some"]}, "", 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
    "a dry run twice": ("CreateOptions", {"dryRun": ["All", "All"]}, "", WriteOptions(True, "", "Warn")),
    "some validation": (
        "UpdateOptions",
        {"fieldValidation": ["Some"]},
        "",
        'fieldValidation: Unsupported value: "Some": supported values: "", "Ignore", "Strict", "Warn"',
    ),
    "long manager": (
        "CreateOptions",
        {"fieldManager": ["x" * 129]},
        "",
        "fieldManager: Too long: may not be more than 128 bytes",
    ),
    "unprintable manager": (
        "CreateOptions",
        {"fieldManager": ["é\t"]},
        "",
        'fieldManager: Invalid value: "é\\t": invalid character U+0009 (at position 2)',
    ),
    "force": ("PatchOptions", {"force": ["true"]}, "", "force: Forbidden: may not be specified for non-apply patch"),
}


@pytest.mark.parametrize("name", WRITES)
def test_write_options(name: str) -> None:
    kind, query, user_agent, wanted = WRITES[name]
    if isinstance(wanted, WriteOptions):
        assert options.write_options(kind, query, user_agent) == wanted
        return
    with pytest.raises(StatusError) as refused:
        options.write_options(kind, query, user_agent)
    assert refused.value.message == f'{kind}.meta.k8s.io "" is invalid: {wanted}'
    assert refused.value.code == 422


DELETIONS: dict[str, tuple[Any, dict[str, list[str]], DeleteOptions]] = {
    "nothing": (None, {}, DeleteOptions()),
    "an empty body": ({}, {"dryRun": ["All"]}, DeleteOptions()),
    "nulls": ({"preconditions": None, "dryRun": None, "gracePeriodSeconds": None}, {}, DeleteOptions()),
    "query": (
        None,
        {"gracePeriodSeconds": ["5"], "propagationPolicy": ["Orphan"], "dryRun": ["All"]},
        DeleteOptions(dry_run=True, propagation="Orphan", grace_period_seconds=5),
    ),
    "a boolean without a value": (None, {"orphanDependents": [""]}, DeleteOptions(orphan_dependents=True)),
    "a false boolean": (None, {"orphanDependents": ["False"]}, DeleteOptions(orphan_dependents=False)),
    "body": (
        {
            "kind": "DeleteOptions",
            "apiVersion": "stable.example.com/v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "3"},
            "propagationPolicy": "Foreground",
        },
        {},
        DeleteOptions(uid="u", resource_version="3", propagation="Foreground", grace_period_seconds=0),
    ),
}


@pytest.mark.parametrize("name", DELETIONS)
def test_delete_options(name: str) -> None:
    body, query, wanted = DELETIONS[name]
    assert options.delete_options(body, query) == wanted
