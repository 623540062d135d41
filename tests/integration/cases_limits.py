"""Cases for `test_same_answers.py`: what lists and watches are told that no client should say.

Continue tokens that nobody was given, revisions that are none, numbers out of range, options that exclude each other. Of the
namespace `listed`, as in `cases_reads.py`; nothing is written.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.integration.comparison import GROUP, Ask, Cases, ask, path

__all__ = ["CASES"]


def _list(resource: str = "shirts", namespace: str = "listed", **query: Any) -> list[Ask]:
    return [ask("GET", path(resource, namespace=namespace, **query))]


def _watch(**query: Any) -> list[Ask]:
    return [ask("GET", path("shirts", namespace="listed", watch="true", **{"timeoutSeconds": "1", **query}))]


def _old_watch(inside: str = "shirts", **query: Any) -> list[Ask]:
    where = path(inside, namespace="listed", **{"timeoutSeconds": "1", **query})
    return [ask("GET", where.replace("/v1/namespaces/", "/v1/watch/namespaces/"))]


def _encoded(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _continue(start: Any = "b\0", rv: Any = -1, namespace: str = "listed", **more: Any) -> list[Ask]:
    """A list that goes on with a token of our own making: `rv` -1 is the newest state, which both servers have alike."""
    document = {"v": "meta.k8s.io/v1", "rv": rv, "start": start, **more}
    given = {key: value for key, value in document.items() if value is not None}
    return _list(namespace=namespace, continue_=_encoded(json.dumps(given)))


def _token(text: str | bytes) -> list[Ask]:
    return _list(continue_=_encoded(text))


_PAGE = path("shirts", namespace="listed", limit=2)
_HUGE = {"int64": 1 << 63, "uint64": 1 << 64, "long": "9" * 5000}

_CONTINUE: Cases = {
    "continue-newest": _continue(),
    "continue-newest-limit": _list(continue_=_encoded('{"v":"meta.k8s.io/v1","rv":-1,"start":"b\\u0000"}'), limit=1),
    "continue-start-absolute": _continue("/b\0"),
    "continue-start-two-slashes": _continue("//b\0"),
    "continue-start-slash": _continue("/"),
    "continue-start-slash-behind": _continue("b/"),
    "continue-start-dot": _continue("."),
    "continue-start-dots": _continue(".."),
    "continue-start-up": _continue("../same/a"),
    "continue-start-up-absolute": _continue("/../same/a"),
    "continue-start-up-inside": _continue("a/../../same"),
    "continue-start-up-behind": _continue("a/.."),
    "continue-start-dot-inside": _continue("a/./b"),
    "continue-start-dots-in-a-name": _continue("..b"),
    "continue-start-nul": _continue("\0"),
    "continue-start-nul-first": _continue("\0b"),
    "continue-start-beyond": _continue("zzz"),
    "continue-start-deeper": _continue("b/c"),
    "continue-start-unicode": _continue("é\U0001f600"),
    "continue-start-not-utf-8": _token(b'{"v":"meta.k8s.io/v1","rv":-1,"start":"b\xff"}'),
    "continue-start-surrogate": _token('{"v":"meta.k8s.io/v1","rv":-1,"start":"b\\ud800"}'),
    "continue-start-empty": _continue(""),
    "continue-start-null": _token('{"v":"meta.k8s.io/v1","rv":-1,"start":null}'),
    "continue-start-number": _continue(7),
    "continue-start-list": _continue([]),
    "continue-start-other-namespace": _continue("listed/b\0"),
    "continue-start-all-namespaces": _continue("listed/b\0", namespace=""),
    "continue-start-after-all-namespaces": _continue("listee", namespace=""),
    "continue-start-long": _continue("b" * 5000),
    "continue-revision-missing": _continue(rv=None),
    "continue-revision-null": _token('{"v":"meta.k8s.io/v1","rv":null,"start":"b"}'),
    "continue-revision-zero": _continue(rv=0),
    "continue-revision-minus-two": _continue(rv=-2),
    "continue-revision-smallest": _continue(rv=-(1 << 63)),
    "continue-revision-too-small": _continue(rv=-(1 << 63) - 1),
    "continue-revision-future": _continue(rv=999999999),
    "continue-revision-largest": _continue(rv=(1 << 63) - 1),
    "continue-revision-too-large": _continue(rv=1 << 63),
    "continue-revision-float": _continue(rv=1.5),
    "continue-revision-whole-float": _token('{"v":"meta.k8s.io/v1","rv":1.0,"start":"b"}'),
    "continue-revision-exponent": _token('{"v":"meta.k8s.io/v1","rv":1e9,"start":"b"}'),
    "continue-revision-text": _continue(rv="7"),
    "continue-revision-true": _continue(rv=True),
    "continue-revision-object": _continue(rv={}),
    "continue-version-missing": _continue(v=None),
    "continue-version-empty": _continue(v=""),
    "continue-version-other": _continue(v="meta.k8s.io/v2"),
    "continue-version-other-no-revision": _continue(v="x", rv=None),
    "continue-version-number": _continue(v=1),
    "continue-several-wrong": _continue(7, rv="x", v=1),
    "continue-unknown-member": _continue(more=1),
    "continue-other-case": _token('{"V":"meta.k8s.io/v1","RV":-1,"Start":"b\\u0000"}'),
    "continue-member-twice": _token('{"v":"meta.k8s.io/v1","rv":-1,"start":"a","start":"b\\u0000"}'),
    "continue-spaces": _token(' {"v": "meta.k8s.io/v1", "rv": -1, "start": "b"} \n'),
    "continue-empty-object": _token("{}"),
    "continue-null": _token("null"),
    "continue-list": _token("[]"),
    "continue-number": _token("1"),
    "continue-string": _token('"x"'),
    "continue-true": _token("true"),
    "continue-open": _token('{"v":'),
    "continue-open-string": _token('{"v":"meta'),
    "continue-more-behind": _token('{"v":"meta.k8s.io/v1","rv":-1,"start":"b"}x'),
    "continue-two-documents": _token('{"v":"meta.k8s.io/v1","rv":-1,"start":"b"}{}'),
    "continue-bare-word": _token("x"),
    "continue-no-utf-8": _token(b"\xff\xfe"),
    "continue-nul": _token(b"\0"),
    "continue-deep": _token("[" * 20000),
    "continue-padding": _list(continue_=_encoded('{"v":"meta.k8s.io/v1","rv":-1,"start":"b"}') + "="),
    "continue-standard-alphabet": _list(continue_="a+b/"),
    "continue-one-character": _list(continue_="a"),
    "continue-five-characters": _list(continue_="YWJjd"),
    "continue-loose-bits": _list(continue_="YWJjYR"),
    "continue-line-break": _list(continue_="YW\nJj"),
    "continue-space": _list(continue_=" "),
    "continue-not-ascii": _list(continue_="é"),
    "continue-empty": _list(continue_=""),
    "continue-twice": [ask("GET", f"{_PAGE}&continue=a&continue=b")],
    "continue-long": _list(continue_="A" * 5000),
    "continue-other-namespace": [ask("GET", _PAGE), *_list(namespace="same", continue_="$continue1", labelSelector="none")],
    "continue-all-namespaces": [
        ask("GET", _PAGE),
        *_list(namespace="", continue_="$continue1", fieldSelector="metadata.namespace=listed"),
    ],
    "continue-other-selector": [ask("GET", _PAGE), *_list(continue_="$continue1", labelSelector="tier=front")],
    "continue-other-field": [ask("GET", _PAGE), *_list(continue_="$continue1", fieldSelector="spec.color=green")],
    "continue-one-name": [ask("GET", _PAGE), *_list(continue_="$continue1", fieldSelector="metadata.name=a")],
    "continue-one-name-behind": [ask("GET", _PAGE), *_list(continue_="$continue1", fieldSelector="metadata.name=d")],
    "continue-revision-own": [ask("GET", _PAGE), *_list(continue_="$continue1", resourceVersion="$rv1")],
    "continue-revision-nonsense": [ask("GET", _PAGE), *_list(continue_="$continue1", resourceVersion="abc")],
    "continue-revision-negative": [ask("GET", _PAGE), *_list(continue_="$continue1", resourceVersion="-1")],
    "continue-nonsense-revision": _list(continue_="nonsense", resourceVersion="5"),
    "continue-match-alone": [ask("GET", _PAGE), *_list(continue_="$continue1", resourceVersionMatch="NotOlderThan")],
    "continue-limit-negative": [ask("GET", _PAGE), *_list(continue_="$continue1", limit=-1)],
}

_REVISION: Cases = {
    **{f"list-revision-beyond-{name}": _list(resourceVersion=value) for name, value in _HUGE.items()},
    **{f"watch-revision-beyond-{name}": _watch(resourceVersion=value) for name, value in _HUGE.items() if name != "int64"},
    **{
        f"{verb}-revision-{name}": asked(resourceVersion=value)
        for name, value in {
            "space": " ",
            "spaces-around": " 1 ",
            "plus": "+1",
            "hex": "0x1",
            "underscore": "1_0",
            "float": "1.0",
            "zeros": "000",
            "zeros-before": "0001",
            "minus-zero": "-0",
            "arabic": "١",
            "nul": "1\0",
            "empty": "",
        }.items()
        for verb, asked in {"list": _list, "watch": _watch}.items()
        if (verb, name) != ("watch", "zeros-before")
    },
    "get-revision-beyond-int64": [ask("GET", path("shirts", "a", namespace="listed", resourceVersion=1 << 63))],
    "get-revision-beyond-uint64": [ask("GET", path("shirts", "a", namespace="listed", resourceVersion=1 << 64))],
    "get-revision-plus": [ask("GET", path("shirts", "a", namespace="listed", resourceVersion="+1"))],
    "get-revision-empty": [ask("GET", path("shirts", "a", namespace="listed", resourceVersion=""))],
    "list-revision-twice": [ask("GET", path("shirts", namespace="listed") + "?resourceVersion=0&resourceVersion=abc")],
    "list-revision-nonsense-match": _list(resourceVersion="abc", resourceVersionMatch="Exact"),
    "list-revision-nonsense-limit": _list(resourceVersion="abc", limit=1),
    "list-revision-one-name-huge": _list(resourceVersion=999999999, fieldSelector="metadata.name=a"),
    "list-revision-exact-int64": _list(resourceVersion=1 << 63, resourceVersionMatch="Exact"),
    "list-revision-limit-int64": _list(resourceVersion=1 << 63, limit=1),
    "list-revision-zeros-exact": _list(resourceVersion="000", resourceVersionMatch="Exact"),
    "list-revision-zeros-limit": _list(resourceVersion="000", limit=1),
    "list-revision-zero-not-older-limit": _list(resourceVersion="0", resourceVersionMatch="NotOlderThan", limit=2),
    "list-revision-nonsense-missing-namespace": _list(namespace="nowhere", resourceVersion="abc"),
}

_MATCH: Cases = {
    "list-match-empty": _list(resourceVersionMatch=""),
    "list-match-lower-case": _list(resourceVersion=1, resourceVersionMatch="exact"),
    "list-match-nonsense-alone": _list(resourceVersionMatch="Perhaps"),
    "list-match-nonsense-zero": _list(resourceVersion=0, resourceVersionMatch="Perhaps"),
    "list-match-nonsense-continue": _list(resourceVersionMatch="Perhaps", continue_="x"),
    "list-match-exact-continue": _list(resourceVersionMatch="Exact", resourceVersion=0, continue_="x"),
    "list-match-not-older-alone": _list(resourceVersionMatch="NotOlderThan"),
    "list-initial-false": _list(sendInitialEvents="false"),
    "list-initial-match": _list(sendInitialEvents="true", resourceVersionMatch="NotOlderThan"),
    "list-initial-match-zero": _list(sendInitialEvents="true", resourceVersionMatch="NotOlderThan", resourceVersion=0),
    "list-initial-continue": _list(sendInitialEvents="true", continue_="x"),
    "list-initial-empty": _list(sendInitialEvents=""),
    "list-bookmarks": _list(allowWatchBookmarks="true"),
    "list-bookmarks-nonsense": _list(allowWatchBookmarks="perhaps"),
    "watch-match-empty": _watch(resourceVersionMatch=""),
    "watch-match-exact-alone": _watch(resourceVersionMatch="Exact", resourceVersion=1),
    "watch-match-nonsense": _watch(resourceVersionMatch="Perhaps"),
    "watch-match-nonsense-initial": _watch(resourceVersionMatch="Perhaps", sendInitialEvents="true"),
    "watch-initial-false-alone": _watch(sendInitialEvents="false"),
    "watch-initial-empty": _watch(sendInitialEvents="", resourceVersionMatch="NotOlderThan"),
    "watch-initial-nonsense": _watch(sendInitialEvents="perhaps", resourceVersionMatch="NotOlderThan"),
    "watch-initial-bookmarks-false": _watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="false"
    ),
    "watch-initial-false-bookmarks": _watch(
        sendInitialEvents="false", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    ),
    "watch-initial-zero": _watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true", resourceVersion=0
    ),
    "watch-initial-one": _watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true", resourceVersion=1
    ),
    "watch-initial-revision-nonsense": _watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true", resourceVersion="abc"
    ),
    "watch-initial-false-huge": _watch(sendInitialEvents="false", resourceVersionMatch="NotOlderThan", resourceVersion=999999999),
    "watch-initial-selected": _watch(
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        fieldSelector="spec.color=green",
    ),
    "watch-initial-one-name": _watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true", fieldSelector="metadata.name=a"
    ),
    "watch-initial-continue-alone": _watch(sendInitialEvents="true", continue_="x"),
    "watch-initial-limit": _watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true", limit=1
    ),
    "watch-bookmarks": _watch(allowWatchBookmarks="true"),
    "watch-bookmarks-empty": _watch(allowWatchBookmarks=""),
    "watch-bookmarks-nonsense": _watch(allowWatchBookmarks="perhaps"),
    "watch-bookmarks-zero": _watch(allowWatchBookmarks="0"),
}

_NUMBERS: Cases = {
    **{
        f"{verb}-{parameter}-{name}": asked(**{parameter: value})
        for name, value in {
            "int64": (1 << 63) - 1,
            "beyond-int64": 1 << 63,
            "smallest": -(1 << 63),
            "beyond-smallest": -(1 << 63) - 1,
            "plus": "+1",
            "float": "1.5",
            "exponent": "1e3",
            "hex": "0x10",
            "space": " 1",
            "underscore": "1_000",
            "minus": "-",
            "arabic": "١",
            "zeros": "0001",
            "quote": '"',
            "long": "9" * 5000,
            "long-negative": "-" + "9" * 5000,
            "long-zeros": "0" * 5000 + "2",
        }.items()
        for verb, parameter, asked in (("list", "limit", _list), ("list", "timeoutSeconds", _list))
    },
    "list-limit-twice": [ask("GET", path("shirts", namespace="listed") + "?limit=2&limit=x")],
    "list-limit-twice-nonsense-first": [ask("GET", path("shirts", namespace="listed") + "?limit=x&limit=2")],
    "list-limit-nonsense-revision": _list(limit="x", resourceVersion="abc"),
    "list-several-nonsense": _list(limit="x", timeoutSeconds="y", labelSelector="a=b=c", fieldSelector="abc"),
    "list-selector-long-parentheses": _list(labelSelector="(" * 9000),
    "list-selector-long-commas": _list(labelSelector="," * 9000),
    "list-selector-long-set": _list(labelSelector=f"a notin ({',' * 9000})"),
    "list-selector-long-symbols": _list(labelSelector=f"a in {'=' * 9000}"),
    "list-selector-long": _list(labelSelector=",".join(f"a{number}!=b" for number in range(1500))),
    "list-field-selector-long-commas": _list(fieldSelector="," * 9000),
    "list-field-selector-long-escapes": _list(fieldSelector="metadata.name!=" + "\\," * 4000),
    "watch-timeout-beyond-int64": _watch(timeoutSeconds=1 << 63),
    "watch-timeout-float": _watch(timeoutSeconds="1.5"),
    "watch-timeout-plus": _watch(timeoutSeconds="+1"),
    "watch-limit-nonsense": _watch(limit="x"),
    "watch-limit-negative": _watch(limit="-1"),
    "watch-value-maybe": [ask("GET", path("shirts", namespace="listed", watch="maybe", timeoutSeconds="1"))],
    "watch-value-empty": [ask("GET", path("shirts", namespace="listed", watch="", timeoutSeconds="1"))],
    "watch-value-false-upper": [ask("GET", path("shirts", namespace="listed", watch="FALSE", timeoutSeconds="1"))],
    "watch-value-no": [ask("GET", path("shirts", namespace="listed", watch="no", timeoutSeconds="1"))],
    "watch-value-f": [ask("GET", path("shirts", namespace="listed", watch="f", timeoutSeconds="1"))],
    "watch-value-twice": [ask("GET", path("shirts", namespace="listed") + "?watch=false&watch=true&timeoutSeconds=1")],
    "watch-value-twice-other": [ask("GET", path("shirts", namespace="listed") + "?watch=true&watch=false&timeoutSeconds=1")],
    "watch-parameter-upper": [ask("GET", path("shirts", namespace="listed", Watch="true", timeoutSeconds="1"))],
}

_OLD_PATHS: Cases = {
    "old-watch-false": _old_watch(watch="false"),
    "old-watch-maybe": _old_watch(watch="maybe"),
    "old-watch-revision-nonsense": _old_watch(resourceVersion="abc"),
    "old-watch-revision-zero": _old_watch(resourceVersion="0"),
    "old-watch-match": _old_watch(resourceVersionMatch="NotOlderThan"),
    "old-watch-match-revision": _old_watch(resourceVersionMatch="NotOlderThan", resourceVersion="0"),
    "old-watch-match-exact": _old_watch(resourceVersionMatch="Exact", resourceVersion="0"),
    "old-watch-initial": _old_watch(sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"),
    "old-watch-initial-watch": _old_watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true", watch="true"
    ),
    "old-watch-initial-alone": _old_watch(sendInitialEvents="true"),
    "old-watch-continue": _old_watch(continue_="x"),
    "old-watch-continue-watch": _old_watch(continue_="x", watch="1"),
    "old-watch-limit": _old_watch(limit="1"),
    "old-watch-timeout-nonsense": _old_watch(timeoutSeconds="x"),
    "old-watch-selector-malformed": _old_watch(labelSelector="a=b=c"),
    "old-watch-selected": _old_watch(labelSelector="tier=front"),
    "old-watch-name-selector": _old_watch("shirts/a", fieldSelector="metadata.name=b"),
    "old-watch-name-same-selector": _old_watch("shirts/a", fieldSelector="metadata.name=a"),
    "old-watch-name-missing": _old_watch("shirts/nothing"),
    "old-watch-name-status": _old_watch("shirts/a/status"),
    "old-watch-bookmarks": _old_watch(allowWatchBookmarks="true"),
    "old-watch-everywhere": [
        ask("GET", f"/apis/{GROUP}/v1/watch/shirts?timeoutSeconds=1&fieldSelector=metadata.namespace%3Dlisted")
    ],
    "old-watch-nothing": [ask("GET", f"/apis/{GROUP}/v1/watch/nothings?timeoutSeconds=1")],
    "old-watch-post": [ask("POST", path("shirts", namespace="listed", timeoutSeconds="1").replace("/v1/", "/v1/watch/"), {})],
    "old-watch-delete": [
        ask("DELETE", path("shirts", "zz", namespace="listed", timeoutSeconds="1").replace("/v1/", "/v1/watch/"))
    ],
}

CASES: Cases = {**_CONTINUE, **_REVISION, **_MATCH, **_NUMBERS, **_OLD_PATHS}
