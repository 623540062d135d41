from typing import Any

import pytest

from aggserver.meta import jsonpath
from aggserver.meta.jsonpath import Budget, JSONPathError

ITEMS = [{"t": "x", "n": 1, "f": 1.5, "ok": True}, {"t": "y", "n": 2, "f": 2.5, "ok": False, "z": None}, {"t": "x", "n": 3}]
DOCUMENT: dict[str, Any] = {
    "a": {"b": ITEMS, "c.d": "dotted", "e": None, "s": "text"},
    "k": [1, 2, 3, 4, 5],
    "n": 7,
    "empty": [],
    "m": {"q": {"t": 1}},
}

FOUND: dict[str, tuple[str, list[Any]]] = {
    "member": (".n", [7]),
    "members": (".m.q.t", [1]),
    "braces": ("{.m.q.t}", [1]),
    "root": ("$.n", [7]),
    "missing": (".x.y", []),
    "member of a number": (".n.x", []),
    "member of an array": (".a.b.t", []),
    "null": (".a.e", [None]),
    "member of null": (".a.e.x", []),
    "index into null": (".a.e[0]", []),
    "quoted key": (".a['b'][0].n", [1]),
    "quoted key with dots": (r".a['c\.d']", ["dotted"]),
    "quoted key with bare dots is a path": (".m['q.t']", [1]),
    "escaped dots": (r".a.c\.d", ["dotted"]),
    "index": (".a.b[0].t", ["x"]),
    "index from the end": (".a.b[-1].n", [3]),
    "first from the end": (".k[-5]", [1]),
    "all": (".a.b[*].n", [1, 2, 3]),
    "all of none": (".empty[*]", []),
    "first of none": (".empty[0]", []),
    "slice": (".k[1:3]", [2, 3]),
    "slice from": (".k[3:]", [4, 5]),
    "slice to": (".k[:2]", [1, 2]),
    "slice from the end": (".k[-2:]", [4, 5]),
    "slice to the end but one": (".k[0:-1]", [1, 2, 3, 4]),
    "steps": (".k[::2]", [1, 3, 5]),
    "empty slice": (".k[1:1]", []),
    "union": (".a.b[0,2].n", [1, 3]),
    "union of keys": (".a.b[0]['t', 'n']", ["x", 1]),
    "union of slices": (".k[0,-1,1:3]", [1, 5, 2, 3]),
    "wildcard": (".a.b[0].*", ["x", 1, 1.5, True]),
    "wildcard over a text gives bytes": (".a.s.*", [116, 101, 120, 116]),
    "descent": ("..t", ["x", "y", "x", 1]),
    "descent below": (".m..t", [1]),
    "descents": ("..b..t", ["x", "y", "x"]),
    "descent into an index": (".a..[0].n", []),
    "filter by text": ('.a.b[?(@.t=="x")].n', [1, 3]),
    "filter with single quotes": (".a.b[?(@.t=='y')].n", [2]),
    "filter unequal": (".a.b[?(@.t!='x')].n", [2]),
    "filter with a parenthesis in the text": ('.a.b[?(@.t==")")].n', []),
    "filter by order": (".a.b[?(@.n>1)].n", [2, 3]),
    "filter by order or equality": (".a.b[?(@.n<=2)].n", [1, 2]),
    "filter by floats": (".a.b[?(@.f>=1.5)].n", [1, 2]),
    "filter by less": (".a.b[?(@.f<2.0)].n", [1]),
    "filter by boolean": (".a.b[?(@.ok==true)].n", [1]),
    "filter by existence": (".a.b[?(@.ok)].n", [1, 2]),
    "filter by existence of null": (".a.b[?(@.z)].n", [2]),
    "filter by what can't be evaluated": (".a.b[?(@.n[0])].n", []),
    "filter by another member": (".a.b[?(@.n==@.n)].n", [1, 2, 3]),
    "filter of elements": (".k[?(@>3)]", [4, 5]),
    "text": ("'a\\n\\x41'", ["a\nA"]),
    "text with quotes": (r'"\"\u00e9\101"', ['"éA']),
    "number": ("-1", [-1]),
    "float": ("1.5", [1.5]),
    "boolean": ("true", [True]),
    "the first of two parts": ("{.n}{.k}", [7]),
    "text before": ("{'a'}", ["a"]),
    "spaces": (".n ", [7]),
}

# Where upstream's evaluation ends in an error, which shows as nothing.
NOTHING = {
    "past the end": ".k[5]",
    "before the beginning": ".k[-6]",
    "slice past the end": ".k[0:9]",
    "slice backwards": ".k[3:1]",
    "slice before the beginning": ".k[:-9]",
    "step of none": ".k[::0]",
    "step back": ".k[::-1]",
    "index of an object": ".a[0]",
    "index of a number": ".n[0]",
    "filter of an object": ".a[?(@.t)]",
    "text and number": ".a.b[?(@.t>1)]",
    "float and integer": ".a.b[?(@.f>1)]",
    "null": ".a.b[?(@.z==1)]",
    "order of booleans": ".a.b[?(@.ok<true)]",
    "many to the left": ".a.b[?(@.*==1)]",
    "many to the right": ".a.b[?(@.n==@.*)]",
    "unknown operator": ".a.b[?(@.n=<1)]",
    "identifier": "range",
}


@pytest.mark.parametrize(("path", "values"), FOUND.values(), ids=FOUND)
def test_find(path: str, values: list[Any]) -> None:
    assert jsonpath.compile(path).find(DOCUMENT) == values


@pytest.mark.parametrize("path", NOTHING.values(), ids=NOTHING)
def test_find_nothing(path: str) -> None:
    assert jsonpath.compile(path).find(DOCUMENT) == []


REFUSED = {
    "open": ("{.a", "unclosed action"),
    "line break": (".a[0]\n", "unclosed action"),
    "character": (".a[0]#", "unrecognized character in action: U+0023 '#'"),
    "open array": (".a[0", "unterminated array"),
    "index": (".a[x]", "invalid array index x"),
    "expression": (".a[(@.length-1)]", "invalid array index (@.length-1)"),
    "large index": (".a[99999999999999999999]", "array index 99999999999999999999 is not a number"),
    "sign without a number": (".a[-]", "array index - is not a number"),
    "open filter": (".a[?(@.b", "unterminated filter"),
    "filter without a bracket": (".a[?(@.b).c", "unclosed array expect ]"),
    "open text": ("'a", "unterminated quoted string"),
    "open text in a filter": (".a[?(@.b=='x)]", "unterminated filter"),
    "unknown escape": (r'"\q"', r'unquote string "\q" error invalid syntax'),
    "past the last code point": (r'"\UFFFFFFFF"', r'unquote string "\UFFFFFFFF" error invalid syntax'),
    "half of a surrogate pair": (r'"\ud800"', r'unquote string "\ud800" error invalid syntax'),
    "octal past a byte": (r'"\777"', r'unquote string "\777" error invalid syntax'),
    "number": ("1.2.3", "cannot parse number 1.2.3"),
    "descent twice": ("....a", "invalid multiple recursive descent"),
    "in the second part": ("{.a}{.b[}", "unterminated array"),
}


@pytest.mark.parametrize(("path", "error"), REFUSED.values(), ids=REFUSED)
def test_refused(path: str, error: str) -> None:
    with pytest.raises(JSONPathError) as refusal:
        jsonpath.compile(path)
    assert str(refusal.value) == error


def test_names() -> None:
    path = jsonpath.compile(".a.b")
    assert (str(path), repr(path)) == (".a.b", "JSONPath('.a.b')")


def nested(levels: int) -> dict[str, Any]:
    obj: dict[str, Any] = {}
    for _ in range(levels):
        obj = {"a": obj}
    return obj


ITEM = {"a": 1, "b": [1, 2, 3]}
# Each would visit a hundred million nodes and more, nearly all of them again and again.
ENDLESS: dict[str, tuple[str, Any]] = {
    "descents": ("..a..a..a..a..zz", nested(100)),
    "descents in a filter": ("..[?(@..a..a..a)]", {"x": [nested(100)] * 100}),
    "a union": (f".x[{','.join(['0:'] * 10_000)}]", {"x": [ITEM] * 10_000}),
    "a union of nothing": (f"..[{','.join(['0:0'] * 10_000)}]", {"x": [[ITEM]] * 10_000}),
    "literals": (".x[*]" + " 1" * 10_000, {"x": [ITEM] * 10_000}),
    "filters": (f".x{'[?(@.b[*])]' * 2}", {"x": [ITEM] * 100_000}),
}


@pytest.mark.parametrize(("path", "obj"), ENDLESS.values(), ids=ENDLESS)
def test_a_path_that_visits_too_much_finds_nothing(path: str, obj: Any) -> None:
    assert jsonpath.compile(path).find(obj) == []


def test_paths_may_visit_a_large_object() -> None:
    items = {"items": [{"name": {"first": number}} for number in range(50_000)]}
    assert jsonpath.compile(".items[*].name.first").find(items) == list(range(50_000))
    assert len(jsonpath.compile("..").find(items)) == 100_002


def test_paths_share_a_budget() -> None:
    items = {"items": list(range(50_000))}
    path, budget = jsonpath.compile(".items[*]"), Budget()
    assert [len(path.find(items, budget)) for _ in range(5)] == [50_000] * 3 + [0, 0]
    assert jsonpath.compile(".items").find(items, budget) == [items["items"]]
    assert not budget.covers("x" * 16)


@pytest.mark.parametrize(
    "value", ["x" * 3_300_000, list(range(60_000)), {"a": [{"b": str(at)} for at in range(30_000)]}, nested(60_000)]
)
def test_values_that_are_too_large_to_be_printed(value: Any) -> None:
    assert not Budget().covers(value)


@pytest.mark.parametrize("value", ["x" * 3_000_000, list(range(40_000)), {"a": 1, "b": [None, True]}, 1.5, None])
def test_values_that_can_be_printed(value: Any) -> None:
    assert Budget().covers(value)
