"""Laws of the pure core: what holds for every value, not only for those in a table."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from aggserver.meta import codec, golang, json_text, jsonpath, names, selectors, times, versions, yaml_text
from aggserver.meta.selectors import FieldSelector, LabelSelector, SelectorError

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | INTEGERS | FLOATS | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)
BYTES = st.binary(max_size=30) | st.text('{}[]:,"\\ 0123456789.eE+-truefalsn', max_size=20).map(str.encode)


def is_normal(value: Any) -> bool:
    """Whether no float is left that Go would write without a fraction and read as an integer."""
    if isinstance(value, dict):
        return all(map(is_normal, value.values()))
    if isinstance(value, list):
        return all(map(is_normal, value))
    return not isinstance(value, float) or not value.is_integer() or abs(value) >= 2**62


@given(VALUES)
def test_json_comes_back(value: Any) -> None:
    decoded = codec.decode_json(json.dumps(value).encode())
    assert decoded == codec.decode_json(codec.encode_json(decoded))
    assert is_normal(decoded)
    if not isinstance(value, float):
        assert decoded == json.loads(json.dumps(value), parse_float=lambda text: codec.decode_json(text.encode()))


@given(VALUES)
def test_what_is_encoded_has_no_duplicates(value: Any) -> None:
    body = json.dumps(value, indent=1).encode()
    assert codec.duplicate_fields(body) == []


# Of a JSON text; some are the same key written otherwise, some look like the end of one.
KEYS = (
    '"a"',
    '"b"',
    r'"\u0061"',
    r'"\""',
    r'"\u0022"',
    r'"\u0022:"',
    r'"\":"',
    r'"\" :"',
    r'"\"\u003a"',
    r'"\"\u0020:"',
    '" "',
    '":"',
)


@given(st.lists(st.sampled_from(KEYS), max_size=8))
def test_a_proof_that_no_key_is_repeated_is_right(keys: list[str]) -> None:
    body = f"{{{', '.join(f'{key}: {value}' for key, value in zip(keys, reversed(keys), strict=True))}}}".encode()
    assert not (codec.decode_checking_keys(body)[1] and codec.duplicate_fields(body))


@given(BYTES)
def test_decoders_agree_on_what_is_json(body: bytes) -> None:
    refusal = ""
    try:
        codec.decode_json(body)
    except codec.DecodeError as error:
        refusal = str(error)
    # A number past what a float holds is the one error that isn't one of syntax.
    assert bool(json_text.syntax_error(body)) == bool(refusal) or refusal.startswith("json: cannot unmarshal number")


@given(st.lists(st.one_of(FLOATS, st.text('0123456789.e-,[:" ', max_size=8))))
def test_floats_are_found_among_texts_that_look_like_them(values: list[Any]) -> None:
    body = json.dumps({"a": values, "b": dict(enumerate(values))}).encode()
    found = codec.decode_json(body)["a"]
    assert [type(value) for value in found] == [type(golang.from_float(v)) if isinstance(v, float) else str for v in values]


@given(VALUES)
def test_json_is_yaml(value: Any) -> None:
    body = codec.encode_json(codec.decode_json(json.dumps(value).encode()))
    if b"\\" not in body and body.isascii() and b"\x7f" not in body:
        assert yaml_text.decode(body)[0] == codec.decode_json(body)


@given(st.floats(-62135596800, 253402300799))
def test_times_come_back(seconds: float) -> None:
    assert times.parse_time(times.format_time(seconds)) == seconds // 1


VERSIONS = st.from_regex(r"v[0-9]{1,2}((alpha|beta)[0-9]{1,2})?|[a-z]{1,3}[0-9]?", fullmatch=True)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_versions_are_in_a_total_order(first: str, second: str, third: str) -> None:
    one, two, three = map(versions.sort_key, (first, second, third))
    assert [one < two, one == two, two < one].count(True) == 1
    if one <= two <= three:
        assert one <= three


LABEL_KEYS = st.sampled_from(["a", "b", "in", "notin", "example.com/a"])
LABEL_VALUES = st.sampled_from(["", "x", "y", "1", "in"])
REQUIREMENTS = st.one_of(
    st.builds("{}{}{}".format, LABEL_KEYS, st.sampled_from(["=", "==", "!="]), LABEL_VALUES),
    st.builds("{} {} ({})".format, LABEL_KEYS, st.sampled_from(["in", "notin"]), st.lists(LABEL_VALUES).map(",".join)),
    st.builds("{}{}".format, st.sampled_from(["", "!"]), LABEL_KEYS),
    st.builds("{}{}{}".format, LABEL_KEYS, st.sampled_from("<>"), st.integers(0, 9)),
)
LABELS = st.dictionaries(LABEL_KEYS, LABEL_VALUES)


@given(st.lists(REQUIREMENTS, max_size=4), LABELS)
def test_label_selectors(requirements: list[str], labels: dict[str, str]) -> None:
    selector = LabelSelector.parse(",".join(requirements))
    assert LabelSelector.parse(str(selector)) == selector
    # A selector is the conjunction of its parts, in any order.
    assert selector.matches(labels) == all(LabelSelector.parse(part).matches(labels) for part in requirements)
    assert LabelSelector.parse(",".join(reversed(requirements))).matches(labels) == selector.matches(labels)


@given(st.text("ab=!<>(), in", max_size=15))
def test_label_selectors_are_read_or_refused(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except SelectorError:
        return
    assert LabelSelector.parse(str(selector)) == selector


@given(st.dictionaries(st.sampled_from(["a", "b.c", "d"]), TEXT, min_size=1))
def test_field_selectors_match_what_they_were_made_of(fields: dict[str, str]) -> None:
    selector = FieldSelector([(name, True, value) for name, value in fields.items()])
    read = FieldSelector.parse(str(selector))
    assert read.matches(fields)
    assert {name: selectors.exact_value(read, name) for name in fields} == fields


@example(r"=\=,==\\")
@given(st.text("ab=!\\,", max_size=12))
def test_field_selectors_are_read_or_refused(text: str) -> None:
    try:
        selector = FieldSelector.parse(text)
    except SelectorError:
        return
    # Terms are sorted as they are written, `==` before it becomes `=`: what is read again may have another order.
    read = FieldSelector.parse(str(selector))
    assert sorted(read.requirements(), key=repr) == sorted(selector.requirements(), key=repr)
    assert FieldSelector.parse(str(read)) == read


@given(st.text(".ab[]?(@='\"){}*:-01,$ \\", max_size=15), VALUES)
def test_json_paths_are_read_or_refused(text: str, value: Any) -> None:
    try:
        path = jsonpath.compile(text)
    except jsonpath.JSONPathError:
        return
    assert isinstance(path.find(value), list)


@given(st.lists(st.sampled_from(["a", "b.c", "d/e"]), min_size=1, max_size=4), VALUES)
def test_a_path_of_names_finds_what_was_put_there(keys: list[str], value: Any) -> None:
    obj = value
    for key in reversed(keys):
        obj = {key: obj}
    path = "".join("." + key.replace(".", "\\.") for key in keys)
    assert jsonpath.compile(path).find(obj) == [value]
    # A filter makes it take the general way.
    assert jsonpath.compile(f".l[?(@{path})]{path}").find({"l": [obj]}) == [value]


@given(st.text("aZ0-._/é", max_size=8))
def test_labels_are_subdomains_and_values(text: str) -> None:
    if not names.dns1123_label(text):
        assert names.dns1123_subdomain(text) == names.label_value(text) == names.qualified_name(text) == []
    if not names.dns1035_label(text):
        assert names.dns1123_label(text) == []
