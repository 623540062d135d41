import tracemalloc
from typing import Any

import pytest

from aggserver.meta import codec, json_text

# Texts of k8s v0.36.3 for the same body.
MALFORMED = {
    "nothing": (b"", "unexpected end of JSON input"),
    "spaces": (b"   ", "unexpected end of JSON input"),
    "open object": (b"{", "unexpected end of JSON input"),
    "open after key": (b'{"a"', "unexpected end of JSON input"),
    "open string": (b'"a', "unexpected end of JSON input"),
    "open literal": (b"nul", "invalid character ' ' in literal null (expecting 'l')"),
    "open number": (b"-", "invalid character ' ' in numeric literal"),
    "literal": (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
    "no value": (b"[,]", "invalid character ',' looking for beginning of value"),
    "comma in array": (b"[1,]", "invalid character ']' looking for beginning of value"),
    "comma in object": (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    "key is a number": (b"{1:2}", "invalid character '1' looking for beginning of object key string"),
    "no colon": (b'{"a" 1}', "invalid character '1' after object key"),
    "no comma in array": (b"[1 2]", "invalid character '2' after array element"),
    "no comma in object": (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
    "more than one value": (b"[1] x", "invalid character 'x' after top-level value"),
    "leading zero": (b"[01]", "invalid character '1' after array element"),
    "no digit after point": (b"[1.]", "invalid character ']' after decimal point in numeric literal"),
    "no digit in exponent": (b"[1e]", "invalid character ']' in exponent of numeric literal"),
    "no digit after sign of exponent": (b"[1e+]", "invalid character ']' in exponent of numeric literal"),
    "no digit after sign": (b"[-a]", "invalid character 'a' in numeric literal"),
    "control character": (b'["\x01"]', "invalid character '\\x01' in string literal"),
    "unknown escape": (b'["\\x"]', "invalid character 'x' in string escape code"),
    "bad hexadecimal": (b'["\\u00g0"]', "invalid character 'g' in \\u hexadecimal character escape"),
    "single quotes": (b"['a']", "invalid character '\\'' looking for beginning of value"),
    "byte order mark": (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
    "NaN": (b"[NaN]", "invalid character 'N' looking for beginning of value"),
    "minus infinity": (b"[-Infinity]", "invalid character 'I' in numeric literal"),
    "past what a float holds": (b"[1e400]", "json: cannot unmarshal number 1e400 into Go value of type float64"),
    "too many digits": (b"[" + b"9" * 400 + b"]", f"json: cannot unmarshal number {'9' * 400} into Go value of type float64"),
    "too many levels": (b"[" * 255 + b"]" * 255, "exceeded max depth"),
    "far too many levels": (b"[" * 100_000, "exceeded max depth"),
    "too many levels around a float": (b"[" * 252 + b"1.0" + b"]" * 252, "exceeded max depth"),
    "too many objects around a float": (b'{"a":' * 252 + b"1.0" + b"}" * 252, "exceeded max depth"),
    "too many levels around an odd text": (b"[" * 251 + b'"\\ud800"' + b"]" * 251, "exceeded max depth"),
}


@pytest.mark.parametrize(("body", "text"), MALFORMED.values(), ids=MALFORMED)
def test_decode_json_refuses(body: bytes, text: str) -> None:
    with pytest.raises(codec.DecodeError) as refusal:
        codec.decode_json(body)
    assert str(refusal.value) == text


def test_a_large_malformed_body_is_refused_with_few_words() -> None:
    with pytest.raises(codec.DecodeError, match=r"line 1 column 600002"):
        codec.decode_json(b"[" + b"0," * 300_000)


DECODED = {
    "scalar": (b" true ", True),
    "deepest": (b"[" * 250 + b"]" * 250, None),
    "deepest around a float": (b"[" * 251 + b"1.0" + b"]" * 251, None),
    "deepest objects around a float": (b'{"a":' * 251 + b"1.0" + b"}" * 251, None),
    "int": (b'{"a": -12}', {"a": -12}),
    "largest int": (b"[9223372036854775807, -9223372036854775808]", [2**63 - 1, -(2**63)]),
    "past 64 bits": (b"[9223372036854775808, -9223372036854775809, 18446744073709551616]", [2.0**63, -(2.0**63), 2.0**64]),
    "float": (b'{"a":1.5}', {"a": 1.5}),
    "float without fraction": (b'{"a":[1.0,1e3,-2.50E+1, 1.5]}', {"a": [1, 1000, -25, 1.5]}),
    "float alone": (b"1.0", 1),
    "float past 64 bits": (b"[1e20]", [1e20]),
    "minus zero": (b"[-0]", [0]),
    "looks like a float within a text": (b'{"a":"x: 1.5","b":"1e3"}', {"a": "x: 1.5", "b": "1e3"}),
    "a float after what looks like one": (b'{"a":"0.","b":2.0}', {"a": "0.", "b": 2}),
    "last of repeated keys": (b'{"a":1,"a":{"b":2}}', {"a": {"b": 2}}),
    "pair of surrogates": (b'["\\ud83d\\ude00"]', ["😀"]),
    "half a pair of surrogates": (b'["a\\ud800b", 1.0]', ["a\ufffdb", 1]),
    "half a pair in a key": (b'{"\\udc00":1}', {"\ufffd": 1}),
    "broken UTF-8": (b'["\xff", 18446744073709551616]', ["\ufffd", 2.0**64]),
}


@pytest.mark.parametrize(("body", "value"), DECODED.values(), ids=DECODED)
def test_decode_json(body: bytes, value: Any) -> None:
    found = codec.decode_json(body)
    if value is not None:
        # repr tells 1 from 1.0 and from True.
        assert repr(found) == repr(value)
    codec.encode_json(found)


DUPLICATES = {
    "none": (b'{"a":1,"b":{"a":1}}', []),
    "none, with spaces": (b'{"a": 1, "b": [1.50]}', []),
    "at the root": (b'{"a":1,"a":2}', ['duplicate field "a"']),
    "once each": (b'{"a":1,"a":2,"a":3}', ['duplicate field "a"']),
    "in the order of the text": (
        b'{"b":{"c":[{"d":1,"d":2}],"b.x":1,"b.x":2},"a":1,"b":{"c":[{"d":1,"d":2}]}}',
        ['duplicate field "b.c[0].d"', 'duplicate field "b.b.x"', 'duplicate field "b"'],
    ),
    "below an empty key": (b'{"":{"a":1,"a":2}}', ['duplicate field ".a"']),
    "in an array at the root": (b'[{"a":1,"a":2}]', ['duplicate field "[0].a"']),
    "quotes in the key": (b'{"a\\"":1,"a\\"":2}', [r'duplicate field "a\""']),
    "half a surrogate": (b'{"a":"\\ud800","a":1}', ['duplicate field "a"']),
    "hidden by an escaped quote": (b'{"a": "\\u0022:", "a": "\\u0022:"}', ['duplicate field "a"']),
    "hidden by an escaped colon": (b'{"a": "\\"\\u003a", "a": "\\"\\u003A"}', ['duplicate field "a"']),
    "hidden by an escaped space": (b'{"a": "\\"\\u0020:", "a": "\\"\\u0020:"}', ['duplicate field "a"']),
    "written with an escape": (b'{"a": 1, "\\u0061": 2}', ['duplicate field "a"']),
}


@pytest.mark.parametrize(("body", "texts"), DUPLICATES.values(), ids=DUPLICATES)
def test_duplicate_fields(body: bytes, texts: list[str]) -> None:
    assert codec.duplicate_fields(body) == texts
    assert not (texts and codec.decode_checking_keys(body)[1])


def test_duplicates_are_reported_up_to_a_hundred() -> None:
    body = b"{" + b",".join(b'"k%d":1,"k%d":2' % (number, number) for number in range(200)) + b"}"
    assert len(codec.duplicate_fields(body)) == 100


def test_duplicates_below_long_keys_take_little_memory() -> None:
    """Neither the path of each nor that of each level is kept."""
    keys = [b'{"' + bytes([number]) * 10_000 + b'":' for number in b"abcdefghijklmnopqrstuvwxyz"]
    repeated = b",".join(b'"k%d":1,"k%d":[{"x":2,"x":3}]' % (number, number) for number in range(1_000))
    body = b"".join(keys) + b"{" + repeated + b"}" + b"}" * len(keys)
    tracemalloc.start()
    try:
        texts = codec.duplicate_fields(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert texts[0].endswith('z.k0"')
    assert sum(map(len, texts)) < 600_000
    assert peak < 8 * len(body)


def test_a_body_has_so_many_objects_and_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_MAX_BRACKETS", 100)
    body = b"[" + b"[],{}," * 50 + b"1]"
    with pytest.raises(codec.DecodeError, match=r"^more than 100 objects and arrays$"):
        codec.decode_checking_keys(body)
    assert len(codec.decode_json(body)) == 101
    codec.decode_checking_keys(body.replace(b"{}", b"1", 1))


PROVEN: dict[str, tuple[bytes, bool]] = {
    "compact": (b'{"a":1,"b":{"a":[1.5,{"a":"x"}]}}', True),
    "with spaces": (b'{"a": 1, "b": {"a": [1.50]}}\n', True),
    "indented": (b'{\n\t"a" :\r\n 1\n}', True),
    "with what looks like a key": (b'{"a": "\\" : x", "\\":": 1}', True),
    "repeated": (b'{"a":1,"a":1}', False),
    "repeated, as long as compact": (b'{"a":1 ,"a":2 , "b": "\\":"}', False),
    "hidden, but not repeated": (b'{"a": "\\u0022"}', False),
}


@pytest.mark.parametrize(("body", "proven"), PROVEN.values(), ids=PROVEN)
def test_what_proves_that_no_key_is_repeated(body: bytes, proven: bool) -> None:
    assert codec.decode_checking_keys(body)[1] == proven


def test_repeated_keys_of_yaml() -> None:
    assert codec.decode_yaml_checking_keys(b"a: 1\nb: 2\n") == ({"a": 1, "b": 2}, [])
    text = 'yaml: unmarshal errors:\n  line 2: key "a" already set in map\n  line 3: key 1 already set in map'
    assert codec.decode_yaml_checking_keys(b"a: 1\na: 2\nb: {1: x, 1: y}\n") == ({"a": 2, "b": {"1": True}}, [text])


def test_syntax_error_finds_nothing_in_a_good_text() -> None:
    assert json_text.syntax_error(b' {"a":[1,-2.5e+10,true,false,null,"x\\u00e9\\n"],"b":{},"c":[]} ') == ""


def test_yaml_is_decoded_to_the_same_values() -> None:
    assert codec.decode_yaml(b"a: 1.0\nb: [yes]\n---\n: {[") == {"a": 1, "b": [True]}
    assert codec.decode_yaml(b"") is None
    with pytest.raises(codec.DecodeError, match=r"^yaml: mapping values are not allowed in this context$"):
        codec.decode_yaml(b"a: b: c")


def test_documents() -> None:
    assert codec.decode_documents(b"a: 1\n---\n---\n# nothing\n---\n- b\n") == [{"a": 1}, ["b"]]
    assert codec.decode_documents(b'{"a":1}') == [{"a": 1}]
    with pytest.raises(codec.DecodeError):
        codec.decode_documents(b"a: 1\n---\n: {[")


def test_yaml_that_is_written_can_be_read() -> None:
    value = {"b": "yes", "a": ["1e3", "x\ny\n", None, 1.5, True, {}]}
    assert codec.dump_yaml(value).startswith(b"a:\n")
    assert codec.decode_yaml(codec.dump_yaml(value)) == value
