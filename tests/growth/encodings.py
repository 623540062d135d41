"""Encodings that grow by their bytes: YAML, JSON, PEM and HTTP/2 in forms of which parsers could read parts again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aggserver.meta import codec, json_text, yaml_output, yaml_text
from aggserver.server.http2.frames import CONTINUATION, DATA, HEADERS, PREFACE, SETTINGS, frame
from aggserver.server.http2.protocol import ServerConnection
from aggserver.webhook import ca_bundle
from tests.growth.measure import Case

# Bytes of a body, less than the limit, so that the largest is quick enough.
_BYTES = 2_000_000


def cases() -> Iterator[Case]:
    for name, make in _YAML.items():
        yield Case(f"bytes of YAML: {name}", make, yaml_text.decode, _BYTES)
    for name, make in _JSON.items():
        yield Case(f"bytes of JSON: {name}", make, codec.decode_checking_keys, _BYTES)
        yield Case(f"bytes of JSON, duplicates: {name}", make, _duplicates, _BYTES)
        yield Case(f"bytes of JSON, errors: {name}", make, json_text.syntax_error, _BYTES // 8)
    for name, make in _PEM.items():
        yield Case(f"bytes of PEM: {name}", make, ca_bundle.problem, _BYTES)
    for name, make in _OUTPUT.items():
        yield Case(f"bytes of written YAML: {name}", make, yaml_output.encode, _BYTES)
    for name, make in _FRAMES.items():
        yield Case(f"bytes of HTTP/2: {name}", make, _receive, _BYTES)
    yield Case("bytes of HTTP/2: one frame, byte by byte", lambda n: frame(DATA, 0, 1, bytes(n)), _receive_bytes, 200_000)


def _receive(data: bytes) -> None:
    """As much as one connection may send, in one read."""
    connection = ServerConnection(lambda: 0.0)
    more = connection.receive(PREFACE + frame(SETTINGS, 0, 0, b"") + data)[1]
    while more:
        more = connection.receive(b"")[1]


def _receive_bytes(data: bytes) -> None:
    connection = ServerConnection(lambda: 0.0)
    connection.receive(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, 4, 1, _GET))
    for at in range(len(data)):
        connection.receive(data[at : at + 1])


def _requests(count: int, fields: bytes) -> bytes:
    return b"".join(frame(HEADERS, 5, 2 * number + 1, _GET + fields) for number in range(count))


def _duplicates(body: bytes) -> list[str]:
    codec.decode_checking_keys(body)
    return codec.duplicate_fields(body)


def _repeated(keys: int) -> bytes:
    return b"{" + b",".join(b'"a%d":1,"a%d":1' % (at, at) for at in range(keys)) + b"}"


_YAML: dict[str, Callable[[int], bytes]] = {
    "%TAG directives": lambda n: b"".join(b"%%TAG !%d! x\n" % i for i in range(n // 13)) + b"---\na: 1\n",
    "prefix of %TAG": lambda n: b"%TAG ! " + b"x" * (n // 2) + b"\n---\n[" + b"!a 1," * (n // 10) + b"]",
    "spaces, then words": lambda n: b"a: b" + b" " * (n // 2) + b" d" * (n // 4),
    "spaces, then words in quotes": lambda n: b'a: "b' + b" " * (n // 2) + b" d" * (n // 4) + b'"',
    "breaks, then lines of a literal": lambda n: b"a: |\n b" + b"\n" * (n // 2) + b" d\n" * (n // 6),
    "breaks, then lines in quotes": lambda n: b'a: "b' + b"\n" * (n // 2) + b" d\n\n" * (n // 8) + b'"',
    "spaces between words, short runs": lambda n: b"a: b" + (b" " * 60 + b"d") * (n // 61),
    "brackets after unfit": lambda n: b"[.inf," + b"[" * n,
    "braces after unfit": lambda n: b"[.inf," + b"{a: " * (n // 4),
    "brackets": lambda n: b"[" * n,
    "dashes": lambda n: b"- " * (n // 2),
    "questions": lambda n: b"?\n" * (n // 2),
    "indentation ladder": lambda n: b"".join(b" " * i + b"a:\n" for i in range(int((2 * n) ** 0.5))),
    "anchors": lambda n: b"[" + b"".join(b"&a%d 1," % i for i in range(n // 9)) + b"]",
    "aliases": lambda n: b"[&a 1," + b"*a ," * (n // 4) + b"]",
    "aliases of a long text": lambda n: b"[&a " + b"x" * (n // 2) + b"," + b"*a ," * (n // 8) + b"]",
    "aliases of a long key": lambda n: b"- &k " + b"x" * (n // 2) + b"\n- {" + b"*k : 1," * (n // 16) + b"}",
    "merges": lambda n: b"- &a {a: 1}\n" + b"- {<<: *a}\n" * (n // 11),
    "merges of a list": lambda n: b"- &a {a: 1}\n- <<: [" + b"*a ," * (n // 4) + b"]",
    "merges of merges": lambda n: b"- &a0 {a: 1}\n" + b"".join(b"- &a%d {<<: *a%d}\n" % (i + 1, i) for i in range(n // 18)),
    "nested merge lists": lambda n: b"{<<: [" * 100 + b"{a: [" + b"1," * (n // 2) + b"]}" + b"]}" * 100,
    "items": lambda n: b"[" + b"1," * (n // 2) + b"]",
    "items with an anchor": lambda n: b"[&a 1," + b"1," * (n // 2) + b"]",
    "pairs": lambda n: b"[" + b"a: ," * (n // 4) + b"]",
    "repeated keys": lambda n: b"{" + b"a: 1," * (n // 5) + b"}",
    "float keys": lambda n: b"".join(b"%d.5: 1\n" % i for i in range(n // 11)),
    "complex key": lambda n: b"? [" + b"{}," * (n // 3) + b"]\n: b\n",
    "plain lines": lambda n: b"a: " + b"x\n " * (n // 3),
    "escapes": lambda n: b'a: "' + b"\\x41" * (n // 4) + b'"',
    "tags with escapes": lambda n: b"a: !<" + b"%41" * (n // 3) + b"> 1",
    "comments": lambda n: b"#\n" * (n // 2) + b"a: 1",
    "documents": lambda n: b"---\n" * (n // 4),
    "digits": lambda n: b"a: " + b"1" * n,
    "digits of a float": lambda n: b"a: 0." + b"1" * n,
    "hexadecimal": lambda n: b"a: 0x" + b"1" * n,
    "UTF-16": lambda n: ("a: " + "x " * (n // 4)).encode("utf-16"),
}
_JSON: dict[str, Callable[[int], bytes]] = {
    "zeros before a point": lambda n: b'"' + b"1" * n + b'."',
    "duplicates below a long key": lambda n: b'{"' + b"k" * (n // 2) + b'":' + _repeated(n // 40) + b"}",
    "long keys of many levels": lambda n: (b'{"' + b"k" * (n // 200) + b'":') * 200 + _repeated(3) + b"}" * 200,
    "duplicates": lambda n: _repeated(n // 20),
    "objects with duplicates": lambda n: b"[" + b'{"a":1,"a":1},' * (n // 14) + b"1]",
    "empty lists": lambda n: b"[" + b"[]," * (n // 3) + b"1]",
    "floats": lambda n: b"[" + b"0.5," * (n // 4) + b"1]",
    "half a surrogate and items": lambda n: b'["\\ud800",' + b"1," * (n // 2) + b"1]",
    "invalid UTF-8": lambda n: b'["' + b"\xff" * n + b'"]',
    "brackets": lambda n: b"[" * n,
    "escapes": lambda n: b'["' + b"\\n" * (n // 2) + b'"]',
}
_PEM: dict[str, Callable[[int], bytes]] = {
    "headers": lambda n: b"-----BEGIN CERTIFICATE-----\n" + b"a:b\n" * (n // 4) + b"\nAAAA\n-----END CERTIFICATE-----\n",
    "begins": lambda n: b"-----BEGIN CERTIFICATE-----\n" * (n // 28),
    "ends": lambda n: b"-----BEGIN A-----\n" + b"-----END B-----\n" * (n // 16),
    "blocks": lambda n: b"-----BEGIN A-----\na: b\n\nAAAA\n-----END A-----\n" * (n // 45),
    "lines": lambda n: b"-----BEGIN A-----\n" + b"a\n" * (n // 2),
    "headers over blocks": lambda n: b"-----BEGIN a:-----\n-----END x:\n" * (n // 31),
}
_OUTPUT: dict[str, Callable[[int], Any]] = {
    "long text of words": lambda n: {"a": "x " * (n // 2)},
    "lines": lambda n: {"a": "x\n" * (n // 2)},
    "digits": lambda n: {"a": "1" * n},
    "quotes": lambda n: {"a": "'" * n},
    "spaces": lambda n: {"a": "x" + "  " * (n // 2) + "y"},
    "keys": lambda n: {f"a{i}": 1 for i in range(n // 8)},
    "keys of digits": lambda n: {"a" + "1" * (n // 20) + str(i): 1 for i in range(20)},
    "colons": lambda n: {"a": "a:" * (n // 2)},
    "levels": lambda n: {"a": [["x" * (n // 2)]]},
}
_GET = b"\x82\x87\x84"
_BODY = frame(HEADERS, 4, 1, _GET)
_FRAMES: dict[str, Callable[[int], bytes]] = {
    "requests": lambda n: _requests(n // 12, b""),
    "requests of many fields": lambda n: _requests(n // 2_000, b"\x90" * 1_900),
    "fields of one request": lambda n: _requests(1, b"\x9f" * min(n, 60_000)),
    "requests of long fields": lambda n: _requests(n // 60_000, b"\x00\x01x\xff\xe1\xd3\x03" + b"\x1f" * 60_000),
    "a body of small frames": lambda n: _BODY + frame(DATA, 0, 1, bytes(64)) * (n // 73),
    "a body beyond its window": lambda n: _BODY + frame(DATA, 0, 1, bytes(16_000)) * (n // 16_009),
    "pieces of a header block": lambda n: frame(HEADERS, 0, 1, _GET) + frame(CONTINUATION, 0, 1, b"\x9f") * (n // 10),
    "changes of the table": lambda n: frame(HEADERS, 4, 1, b"\x20" * min(n, 60_000) + _GET),
    "settings": lambda n: _requests(500, b"") + frame(SETTINGS, 0, 0, b"\x00\x04\x00\x00\x00\x01" * min(n // 6, 40_000)),
}
