import base64

import orjson
import pytest

from aggserver.storage.keys import (
    InvalidContinue,
    ObjectKey,
    ancestors,
    decode_continue,
    encode_continue,
    prefix_end,
    resource_prefix,
    split,
)

PREFIX = "/stable.example.com/crontabs/default/"


def token(document: object) -> str:
    return base64.urlsafe_b64encode(document if isinstance(document, bytes) else orjson.dumps(document)).rstrip(b"=").decode()


KEYS = {
    "namespaced": (("stable.example.com", "crontabs", "default", "a"), "/stable.example.com/crontabs/default/a"),
    "cluster-scoped": (("stable.example.com", "zones", "", "a.b"), "/stable.example.com/zones/a.b"),
    "core group": (("", "configmaps", "default", "a"), "/core/configmaps/default/a"),
}


@pytest.mark.parametrize("name", KEYS)
def test_split(name: str) -> None:
    parts, key = KEYS[name]
    assert split(key) == ObjectKey(*parts)
    assert key.startswith(resource_prefix(parts[0], parts[1]))


@pytest.mark.parametrize("key", ["", "a", "/g", "/g/r", "/g/r/", "/g/r/n/a/b", "g/r/n/a", "/g//n/a"])
def test_split_refuses_what_is_no_objects_key(key: str) -> None:
    with pytest.raises(ValueError, match="is not an object's key"):
        split(key)


def test_ancestors_and_ends() -> None:
    assert ancestors("/g/r/n/a") == ["/", "/g/", "/g/r/", "/g/r/n/", "/g/r/n/a"]
    assert ancestors("/g/r/") == ["/", "/g/", "/g/r/"]
    assert prefix_end("/g/r/") == "/g/r0"
    assert "/g/r/\U0010ffff" < prefix_end("/g/r/") < "/g/r0a"


def test_token_is_upstreams() -> None:
    made = encode_continue("a\0", 42)
    assert "=" not in made
    assert base64.urlsafe_b64decode(made + "==") == b'{"v":"meta.k8s.io/v1","rv":42,"start":"a\\u0000"}'
    assert decode_continue(made, PREFIX) == (PREFIX + "a\0", 42)
    assert decode_continue(encode_continue("ns/a\0", -1), "/g/r/") == ("/g/r/ns/a\0", -1)


def test_a_token_of_objects_that_were_moved_here_lists_the_rest_elsewhere() -> None:
    made = encode_continue("a\0", 42, moved=True)
    assert base64.urlsafe_b64decode(made + "==") == b'{"v":"meta.k8s.io/v1","rv":-1,"at":42,"start":"a\\u0000"}'
    assert decode_continue(made, PREFIX) == (PREFIX + "a\0", 42)


GOOD = {"v": "meta.k8s.io/v1", "rv": 5, "start": "a"}
REFUSED = {
    "another alphabet": ("a+b/", "continue key is not valid: illegal base64 data at input byte 1"),
    "padding": (token(GOOD) + "=", f"continue key is not valid: illegal base64 data at input byte {len(token(GOOD))}"),
    "cut short": ("a", "continue key is not valid: illegal base64 data at input byte 0"),
    "no JSON": (token(b"hello"), "continue key is not valid: "),
    "no object": (
        token([1]),
        "continue key is not valid: json: cannot unmarshal array into Go value of type storage.continueToken",
    ),
    "null": (token(None), "continue key is not valid: server does not recognize this encoded version "),
    "a revision as text": (
        token(GOOD | {"rv": "5"}),
        "continue key is not valid: json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
    ),
    "a revision with a fraction": (
        token(GOOD | {"rv": 1.5}),
        "continue key is not valid: json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64",
    ),
    "a start of another type": (
        token(GOOD | {"start": True}),
        "continue key is not valid: json: cannot unmarshal bool into Go struct field continueToken.start of type string",
    ),
    "another version": (
        token(GOOD | {"v": "v2"}),
        "continue key is not valid: server does not recognize this encoded version v2",
    ),
    "no version": (token({"rv": 5, "start": "a"}), "continue key is not valid: server does not recognize this encoded version "),
    "no revision": (
        token(GOOD | {"rv": 0}),
        "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
    ),
    "no start": (token(GOOD | {"start": ""}), "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"),
    "climbing out": (token(GOOD | {"start": "../other/a"}), "continue key is not valid: ../other/a"),
    "climbing out below": (token(GOOD | {"start": "a/../../b"}), "continue key is not valid: a/../../b"),
    "dot": (token(GOOD | {"start": "./a"}), "continue key is not valid: ./a"),
    "double slash": (token(GOOD | {"start": "//a"}), "continue key is not valid: //a"),
    "slash at the end": (token(GOOD | {"start": "a/"}), "continue key is not valid: a/"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_tokens(name: str) -> None:
    given, message = REFUSED[name]
    with pytest.raises(InvalidContinue) as refused:
        decode_continue(given, PREFIX)
    assert str(refused.value).startswith(message)
    if not message.endswith((": ", "json: ")):
        assert str(refused.value) == message


def test_names_of_members_are_taken_in_any_case_and_line_breaks_skipped() -> None:
    made = token({"V": "meta.k8s.io/v1", "RV": 5, "Start": "a"})
    assert decode_continue(made[:5] + "\r\n" + made[5:], PREFIX) == (PREFIX + "a", 5)


@pytest.mark.parametrize("start", ["a", "/a", "a\0", "..a\0", "..\0"])
def test_a_start_stays_below_its_prefix(start: str) -> None:
    key, revision = decode_continue(token(GOOD | {"start": start}), PREFIX)
    assert key == PREFIX + start.removeprefix("/")
    assert revision == 5
