import contextlib
import tracemalloc
from typing import Any

import pytest

from aggserver.meta import yaml_bounds, yaml_text
from aggserver.meta.json_text import MAX_DEPTH
from aggserver.meta.yaml_text import YAMLTextError

# What sigs.k8s.io/yaml v1.6.0 makes of a plain scalar, where that isn't the text itself.
SCALARS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "on", "On", "TRUE", "true"), True),
    **dict.fromkeys(("n", "no", "off", "OFF", "False"), False),
    **dict.fromkeys(("", "~", "null", "NULL"), None),
    "0x1F": 31,
    "-0x1F": -31,
    "0o14": 12,
    "014": 12,
    "08": 8,
    "0b11": 3,
    "-0b11": -3,
    "+1": 1,
    "1_000": 1000,
    "0_7": 7,
    "1e3": 1000,
    "1.5e3": 1500,
    "1.": 1,
    "-.5": -0.5,
    ".5": 0.5,
    "9223372036854775807": 2**63 - 1,
    "18446744073709551615": 2.0**64,
    "0xFFFFFFFFFFFFFFFF": 2.0**64,
    "99999999999999999999": 1e20,
}
STRINGS = ("yEs", "nUll", "1:30", "2001-01-01", "2001-12-14t21:59:43.10-05:00", "=", "0o8", "0b2", "1e", "_1", "+", "..")
STRINGS += ("1e400", "0xFFFFFFFFFFFFFFFFFF", "inf", "nan", "1,000", "١")


@pytest.mark.parametrize("text", SCALARS)
def test_plain_scalars(text: str) -> None:
    found = yaml_text.decode(f"a: {text}".encode())[0]["a"]
    assert repr(found) == repr(SCALARS[text])


@pytest.mark.parametrize("text", STRINGS)
def test_plain_scalars_that_are_strings(text: str) -> None:
    assert yaml_text.decode(f"a: {text}".encode())[0] == {"a": text}


DECODED: dict[str, tuple[bytes, Any]] = {
    "nothing": (b"", None),
    "comment": (b"# only", None),
    "quotes make strings": (b"a: 'yes'\nb: \"1\"\nc: |\n  1\n", {"a": "yes", "b": "1", "c": "1\n"}),
    "tags": (b"a: !!str 12\nb: !foo 12\nc: !!float 3\nd: ! 12\ne: !!bool yes\nf: !!int '3'", None),
    "binary": (b"a: !!binary aGVs\nb: !!binary |\n  aGVs\n  bG8=\n", {"a": "hel", "b": "hello"}),
    "keys become strings": (b"1: a\n1.5: b\ntrue: c\n1e6: d\n0.00001: e\n123456789.5: f\n2001-01-01: g\n.inf: h", None),
    "a key past 64 bits": (b"18446744073709551616: a", {"1.8446744e+19": "a"}),
    "repeated keys": (b"a: 1\na: 2\n", {"a": 2}),
    "alias": (b"a: &x [1]\nb: *x\nc: &x 2\nd: *x", {"a": [1], "b": [1], "c": 2, "d": 2}),
    "merge": (b"x: &b {a: 1, b: 2}\nz: {<<: *b, b: 3}", {"x": {"a": 1, "b": 2}, "z": {"a": 1, "b": 3}}),
    "merge after a key": (b"x: &b {a: 1}\nz: {a: 0, <<: *b}", {"x": {"a": 1}, "z": {"a": 1}}),
    "merge of several": (b"<<: [{a: 1}, {b: 2, a: 3}]\nc: 5\n", {"b": 2, "a": 1, "c": 5}),
    "quoted merge is a key": (b"'<<': 1", {"<<": 1}),
    "only the first document": (b"a: 1\n---\n: {[", {"a": 1}),
    "JSON": (b'{"a":[1,"b",null]}', {"a": [1, "b", None]}),
    "carriage returns": (b"a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
}
DECODED["tags"] = (DECODED["tags"][0], {"a": "12", "b": "12", "c": 3, "d": "12", "e": True, "f": 3})
DECODED["keys become strings"] = (
    DECODED["keys become strings"][0],
    {"1": "a", "1.5": "b", "true": "c", "1e+06": "d", "1e-05": "e", "1.2345679e+08": "f", "2001-01-01": "g", ".inf": "h"},
)


@pytest.mark.parametrize(("body", "value"), DECODED.values(), ids=DECODED)
def test_decode(body: bytes, value: Any) -> None:
    assert repr(yaml_text.decode(body)[0]) == repr(value)


REPEATED = {
    "key": (b"a: 1\na: 2\n", ['line 2: key "a" already set in map']),
    "nested": (b"a: {b: 1, b: 2}\n", ['line 1: key "b" already set in map']),
    "not a string": (b"1: 1\n1: 2\nyes: 1\non: 2", ["line 2: key 1 already set in map", "line 4: key true already set in map"]),
    "of another type": (b"1: 1\n'1': 2", []),
    "inner before outer": (
        b"a: 1\na:\n  b: 1\n  b: 2\n",
        ['line 4: key "b" already set in map', 'line 3: key "a" already set in map'],
    ),
    "several kinds of keys": (
        b"a: 1\n1: 2\na: 3\n1: 4",
        ['line 3: key "a" already set in map', "line 4: key 1 already set in map"],
    ),
    "by a merge": (b"x: &b {a: 1}\nz: {a: 0, <<: *b}", ['line 1: key "a" already set in map']),
}


@pytest.mark.parametrize(("body", "lines"), REPEATED.values(), ids=REPEATED)
def test_repeated_keys(body: bytes, lines: list[str]) -> None:
    assert yaml_text.decode(body)[1] == lines


REFUSED = {
    "mapping in a value": (b"a: b: c", "yaml: mapping values are not allowed in this context"),
    "with its line": (b"a: 1\n b: 2", "yaml: line 2: mapping values are not allowed in this context"),
    "goes on wrongly": (b"a:1\nb: 2\n", "yaml: line 2: mapping values are not allowed in this context"),
    "open sequence": (b"a: [1,2", "yaml: line 1: did not find expected ',' or ']'"),
    "tabulator": (b"\tx: 1", "yaml: found character that cannot start any token"),
    "escape": (b'a: "\\q"', "yaml: found unknown escape character"),
    "control character": (b"a: \x01", "yaml: control characters are not allowed"),
    "broken UTF-8": (b'a: "\xff"', "yaml: invalid leading UTF-8 octet"),
    "unknown anchor": (b"a: *x", "yaml: unknown anchor 'x' referenced"),
    "contains itself": (b"a: &x [*x]", "yaml: anchor 'x' value contains itself"),
    "merges itself": (b"a: &x {<<: *x}", "yaml: anchor 'x' value contains itself"),
    "template left in": (
        b"a: {{ .Values.x }}",
        'yaml: invalid map key: map[interface {}]interface {}{".Values.x":interface {}(nil)}',
    ),
    "sequence as a key": (b"? [1,a]\n: 3", 'yaml: invalid map key: []interface {}{1, "a"}'),
    "null as a key": (b"? null\n: 3", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 3"),
    "large key": (b"18446744073709551615: 1", "unsupported map key of type: uint64, key: 0xffffffffffffffff, value: 1"),
    "not a number": (b"a: .nan", "json: unsupported value: NaN"),
    "infinite": (b"a: -.inf", "json: unsupported value: -Inf"),
    "wrong tag": (b"a: !!int abc", "yaml: cannot decode !!str `abc` as a !!int"),
    "number with a wrong tag": (b"a: !!bool 1", "yaml: cannot decode !!int `1` as a !!bool"),
    "timestamp": (b"a: !!timestamp x", "yaml: cannot decode !!str `x` as a !!timestamp"),
    "bad base64": (b"a: !!binary '*'", "yaml: !!binary value contains invalid base64 data"),
    "base64 that is no ASCII": ("a: !!binary é".encode(), "yaml: !!binary value contains invalid base64 data"),
    "no YAML further on comes first": (b"a: !!int x\nb: [", "yaml: line 2: did not find expected node content"),
    "an unknown anchor comes before that": (b"a: *x\nb: [", "yaml: unknown anchor 'x' referenced"),
    "merge of a scalar": (b"<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
    "merge of scalars": (b"<<: [1]", "yaml: map merge requires map or sequence of maps as the value"),
    "too many levels": (b"[" * 300 + b"]" * 300, "exceeded max depth"),
    "too many levels through aliases": (
        b"a: &a " + b"[" * 200 + b"]" * 200 + b"\nb: " + b"[" * 100 + b"*a" + b"]" * 100,
        "exceeded max depth",
    ),
}


@pytest.mark.parametrize(("body", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses(body: bytes, text: str) -> None:
    with pytest.raises(YAMLTextError) as refusal:
        yaml_text.decode(body)
    assert str(refusal.value) == text


def doubled(levels: int) -> bytes:
    """Each line has two aliases of the line before."""
    lines = (f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]" for level in range(1, levels + 1))
    return "\n".join(("a0: &a0 [x]", *lines)).encode()


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for previous, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{previous}'] * 9)}]")
    with pytest.raises(YAMLTextError, match=r"^yaml: document contains excessive aliasing$"):
        yaml_text.decode("\n".join(lines).encode())


@pytest.mark.parametrize(
    ("nodes", "share"),
    [
        (1_000, 0.99),
        (400_000, 0.99),
        (400_001, 0.99 - 0.89 / 3_600_000),
        (2_200_000, 0.545),
        (3_999_999, 0.10 + 0.89 / 3_600_000),
        (4_000_000, 0.10),
        (9_000_000, 0.10),
    ],
)
def test_the_part_of_a_document_that_aliases_may_copy(nodes: int, share: float) -> None:
    assert yaml_text._alias_share(nodes) == pytest.approx(share, abs=1e-9)


def test_many_aliases_of_small_things_are_fine() -> None:
    body = b"a: &a x\nb: [" + b", ".join([b"*a"] * 2000) + b"]"
    assert yaml_text.decode(body)[0]["b"] == ["x"] * 2000


def test_values_of_an_alias_are_copies() -> None:
    value, _ = yaml_text.decode(b"a: &a {x: 1}\nb: *a\n")
    value["a"]["x"] = 2
    assert value["b"] == {"x": 1}


def test_all_documents() -> None:
    assert yaml_text.decode_all(b"--- a\n--- b\n") == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        pytest.param(b"a: {b: [1, 2]}\n", 1, id="plain"),
        pytest.param(b"a: 1\na: 2\n", 1, id="a repeated key"),
        pytest.param(b"a: &x 1\nb: *x\nb: *x\n", 1, id="aliases"),
        pytest.param(b"a: [", 1, id="broken"),
        pytest.param(b"a: !!int x", 1, id="unfit"),
    ],
)
def test_a_text_is_read_once(monkeypatch: pytest.MonkeyPatch, body: bytes, reads: int) -> None:
    parsers: list[Any] = []

    class Counted(yaml_text._LOADER):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            parsers.append(self)
            super().__init__(stream)

    monkeypatch.setattr(yaml_text, "_LOADER", Counted)
    with contextlib.suppress(YAMLTextError):
        yaml_text.decode(body)
    assert len(parsers) == reads


# Texts for which libyaml takes a time that grows with the square of their length, or that make much out of little: what
# is refused, and the most of the same that is not.
BOUNDED: dict[str, tuple[bytes, bytes, str]] = {
    "%TAG directives": (
        b"".join(b"%%TAG !%d! x\n" % number for number in range(17)) + b"--- 1",
        b"".join(b"%%TAG !%d! x\n" % number for number in range(16)) + b"--- 1",
        "yaml: more than 16 %TAG directives",
    ),
    "%TAG directives after other line breaks": (
        b"# \r%TAG !a! x\xc2\x85# ---\xe2\x80\xa8" + b"".join(b"%%TAG !%d! x\n" % number for number in range(16)) + b"--- 1",
        b"# \r%TAG !a! x\xc2\x85# ---\xe2\x80\xa8" + b"".join(b"%%TAG !%d! x\n" % number for number in range(15)) + b"--- 1",
        "yaml: more than 16 %TAG directives",
    ),
    "%TAG directives in UTF-16": (
        ("".join(f"%TAG !{number}! x\n" for number in range(17)) + "--- 1").encode("utf-16"),
        ("".join(f"%TAG !{number}! x\n" for number in range(16)) + "--- 1").encode("utf-16"),
        "yaml: more than 16 %TAG directives",
    ),
    "lines of text that look like directives": (
        b"".join(b"%%TAG !%d! x\n" % number for number in range(17)),
        b"--- |\n a\n--- '\n" + b"%TAG !a! x\n" * 99 + b"'",
        "yaml: more than 16 %TAG directives",
    ),
    "%TAG directives after an empty line": (
        b"\n" + b"".join(b"%%TAG !%d! x\n" % number for number in range(17)) + b"--- 1",
        b"\n--- '\n" + b"%TAG !a! x\n" * 99 + b"'",
        "yaml: more than 16 %TAG directives",
    ),
    "the prefix of a %TAG directive": (
        b"%TAG ! " + b"x" * 1025 + b"\n--- [!a 1, !b 2]",
        b"%TAG ! " + b"x" * 1024 + b"\n--- [!a 1, !b 2]",
        "yaml: prefixes of %TAG directives of more than 1024 characters",
    ),
    "the same, with an anchor": (
        b"%TAG ! " + b"x" * 1025 + b"\n--- [&a !a 1, *a ]",
        b"%TAG ! " + b"x" * 1024 + b"\n--- [&a !a 1, *a ]",
        "yaml: prefixes of %TAG directives of more than 1024 characters",
    ),
    **{
        name: (
            start + run * 100_000 + words * 20_000 + end,
            start + run * 600 + words * 20_000 + end,
            "yaml: too many words and lines beside a long run of spaces or line breaks",
        )
        for name, start, run, words, end in (
            ("spaces and words", b"a: b", b" ", b" d", b""),
            ("tabulators and words in quotes", b'a: "b', b"\t", b" d", b'"'),
            ("spaces and lines", b"a: 'b", b" ", b" d\n", b"'"),
            ("line breaks and lines", b"a: b", b"\n", b" d\n\n", b""),
            ("line breaks and lines of a literal", b"a: |\n b", b"\n", b" d\n", b""),
            ("line breaks and lines of folded text", b"a: >\n b", b"\n \n", b" d\n", b""),
            ("carriage returns", b"a: 'b", b"\r", b" d\n\n", b"'"),
            ("unusual line breaks", b"a: 'b", "\u2028".encode(), b" d\n\n", b"'"),
        )
    },
    "spaces and words in UTF-16": (
        f"a: b{' ' * 100_000}{' d' * 20_000}".encode("utf-16"),
        f"a: b{' ' * 600}{' d' * 20_000}".encode("utf-16"),
        "yaml: too many words and lines beside a long run of spaces or line breaks",
    ),
    "brackets after what is unfit": (
        b"[.inf," + b"[" * 252,
        b"[1," + b"[" * 200 + b"]" * 201,
        "exceeded max depth",
    ),
    "aliases that copy more than 99 of 100 nodes": (doubled(9), doubled(8), "yaml: document contains excessive aliasing"),
    "aliases of a long text": (
        b"[&a " + b"x" * 100_000 + b"," + b"*a ," * 32 + b"]",
        b"[&a " + b"x" * 100_000 + b"," + b"*a ," * 31 + b"]",
        "yaml: document contains excessive aliasing",
    ),
    "aliases that copy as many bytes as a body may have": (
        b"[&a " + b"x" * (96 * 1024 - 7) + b"," + b"*a ," * 32 + b"]",
        b"[&a " + b"x" * (96 * 1024 - 8) + b"," + b"*a ," * 32 + b"]",
        "yaml: document contains excessive aliasing",
    ),
    "aliases of a long text that is no ASCII": (
        b"[&a " + "\U0001f600".encode() * 25_000 + b"," + b"*a ," * 32 + b"]",
        b"[&a " + "\U0001f600".encode() * 25_000 + b"," + b"*a ," * 31 + b"]",
        "yaml: document contains excessive aliasing",
    ),
    "aliases as keys": (
        b"- &a " + b"x" * 100_000 + b"\n- {" + b"*a : 1," * 32 + b"}",
        b"- &a " + b"x" * 100_000 + b"\n- {" + b"*a : 1," * 31 + b"}",
        "yaml: document contains excessive aliasing",
    ),
    "merges of a long text": (
        b"- &a {a: " + b"x" * 100_000 + b"}\n- <<: [" + b"*a ," * 32 + b"]",
        b"- &a {a: " + b"x" * 100_000 + b"}\n- <<: [" + b"*a ," * 31 + b"]",
        "yaml: document contains excessive aliasing",
    ),
    "aliases of a tagged text": (
        b"[&a !b " + b"x" * 100_000 + b"," + b"*a ," * 32 + b"]",
        b"[&a !b " + b"x" * 100_000 + b"," + b"*a ," * 31 + b"]",
        "yaml: document contains excessive aliasing",
    ),
}


@pytest.mark.parametrize(("refused", "accepted", "text"), BOUNDED.values(), ids=BOUNDED)
def test_bounds(refused: bytes, accepted: bytes, text: str) -> None:
    with pytest.raises(YAMLTextError) as refusal:
        yaml_text.decode(refused)
    assert str(refusal.value) == text
    yaml_text.decode(accepted)


# name: (what follows 64 KB of text, the bytes that libyaml clears at most)
# Twice the longest run of blanks for each word and line, and six times the longest run of breaks for each line.
CLEARED: dict[str, tuple[bytes, int]] = {
    "a run of spaces": (b" " * 64 + b"a", 2 * 64),
    "tabulators and spaces": (b" \t" * 50 + b"a", 2 * 100),
    "the longest of several": (b" " * 64 + b"a" + b" " * 80 + b"a" + b" " * 70 + b"a", 2 * 80 * 3),
    "spaces and words": (b" " * 64 + b"a b c\nd", 2 * 64 * 4),
    "lines": (b"\n" * 64 + b"a", 6 * 64),
    "carriage returns": (b"\r\n" * 32 + b"a\nb", 6 * 64 * 2),
    "breaks of three bytes": ("\u2028".encode() * 64, 6 * 64),
    "lines with spaces between them": (b"\n " * 64 + b"a", 6 * 64),
    "both": (b" " * 64 + b"a" + b"\n" * 65 + b"b", 2 * 64 * 2 + 6 * 65),
    "an indentation": (b"\n" + b" " * 100 + b"a", 0),
    "runs that are not long": (b" " * 63 + b"a" + b"\n" * 63 + b"a", 0),
}


@pytest.mark.parametrize("name", CLEARED)
def test_what_libyaml_clears(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text, cleared = b"x" * 64 * 1024 + CLEARED[name][0], CLEARED[name][1]
    monkeypatch.setattr(yaml_bounds, "_MAX_CLEARED", cleared)
    assert yaml_bounds.problem(text) == ""
    monkeypatch.setattr(yaml_bounds, "_MAX_CLEARED", cleared - 1)
    assert yaml_bounds.problem(text) == "too many words and lines beside a long run of spaces or line breaks"


def test_how_much_libyaml_may_clear() -> None:
    most = b"a" + b" " * 62_500 + b"a " * 3_999
    assert yaml_bounds.problem(most) == ""
    assert yaml_bounds.problem(most + b"\n") != ""


def test_small_texts_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_bounds, "_MAX_CLEARED", 0)
    text = b" " * (64 * 1024 - 1) + b"a"
    assert yaml_bounds.problem(text) == ""
    assert yaml_bounds.problem(text + b"b") != ""


def test_long_runs_alone_are_no_harm() -> None:
    lines = b"".join(b"  - a:%sb # c\n" % (b" " * 200) for _ in range(2_000))
    assert len(yaml_text.decode(b"z:\n" + lines)[0]["z"]) == 2_000
    assert len(yaml_text.decode(b"x: 'a" + b" " * 1_000_000 + b"b'\nz: 1\n")[0]["x"]) == 1_000_002


@pytest.mark.parametrize("start", [pytest.param(b"[", id="direct"), pytest.param(b"[&a 1,", id="with an anchor")])
def test_a_text_has_so_many_containers(monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    monkeypatch.setattr(yaml_text, "_MAX_CONTAINERS", 100)
    with pytest.raises(YAMLTextError, match=r"^yaml: more than 100 mappings and sequences$"):
        yaml_text.decode(start + b"{}," * 50 + b"[]," * 50 + b"]")
    yaml_text.decode(start + b"{}," * 50 + b"[]," * 49 + b"]")


def test_a_text_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """libyaml holds Python's lock while it reads a token, except when it asks for more text."""
    sizes: list[int] = []

    class Counted(yaml_text._Stream):
        def read(self, size: int = -1, /) -> bytes:
            sizes.append(size)
            return super().read(size)

    monkeypatch.setattr(yaml_text, "_Stream", Counted)
    for text in (b"x" * 1_000_000, b"&a " + b"x" * 1_000_000):
        sizes.clear()
        assert yaml_text.decode(text)[0] == "x" * 1_000_000
        assert max(sizes) <= 64 * 1024


def test_a_stream_gives_its_text_in_order() -> None:
    stream = yaml_text._Stream(b"abcdefgh")
    assert (stream.read(2), stream.read(3), stream.read(), stream.read(), stream.read(1)) == (b"ab", b"cde", b"fgh", b"", b"")


def test_a_tape_is_small() -> None:
    """The nodes of a text with an anchor are kept until its end: 12 bytes for each and what the values take."""
    body = b"[&a 1," + b"1," * 5_000 + b"]"
    tracemalloc.start()
    try:
        yaml_text.decode(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 5_000


def test_complaints_and_shown_values_have_a_bound() -> None:
    _, repeated = yaml_text.decode(b"{" + b"a: 1," * 20_000 + b"}")
    assert repeated[0] == 'line 1: key "a" already set in map'
    # The last one is the first that no longer fits.
    assert len(repeated) == 256 * 1024 // len(repeated[0]) + 1
    with pytest.raises(YAMLTextError) as refusal:
        yaml_text.decode(b"? [" + b"{}," * 20_000 + b"]\n: 1")
    assert len(str(refusal.value)) < 70_000


def test_an_unknown_anchor_after_what_is_unfit_comes_first() -> None:
    with pytest.raises(YAMLTextError, match=r"^yaml: unknown anchor 'x' referenced$"):
        yaml_text.decode(b"- !!int x\n- *x")


# name: what so many levels are. With an anchor, another decoder reads it.
LEVELS: dict[str, tuple[bytes, bytes, bytes]] = {
    "sequences": (b"[", b"", b"]"),
    "mappings": (b"{a: ", b"{}", b"}"),
    "sequences below an anchor": (b"[", b"", b"]"),
    "mappings below an anchor": (b"{a: ", b"{}", b"}"),
}


@pytest.mark.parametrize("name", LEVELS)
def test_the_deepest_that_is_taken(name: str) -> None:
    opening, inner, closing = LEVELS[name]

    def nested(levels: int) -> bytes:
        levels -= bool(inner)
        return (b"&x " if "anchor" in name else b"") + opening * levels + inner + closing * levels

    assert yaml_text.decode(nested(MAX_DEPTH))[1] == []
    with pytest.raises(YAMLTextError, match="exceeded max depth"):
        yaml_text.decode(nested(MAX_DEPTH + 1))


def test_the_depth_of_what_is_passed_over() -> None:
    for levels, text in ((MAX_DEPTH, "cannot decode"), (MAX_DEPTH + 1, "exceeded max depth")):
        with pytest.raises(YAMLTextError, match=text):
            yaml_text.decode(b"- !!int x\n- " + b"[" * levels + b"]" * levels)
