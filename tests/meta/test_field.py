import pytest

from aggserver.meta import field
from aggserver.meta.field import FieldError, Path, RawJSON

PATH = Path("spec").child("list").index(2).key("k").child("a", "b")

ERRORS = {
    "path": (field.required(PATH, "why"), "spec.list[2][k].a.b: Required value: why"),
    "no path": (field.required(Path()), "<nil>: Required value"),
    "string": (field.invalid(Path("a"), 'x"\x7f', "why"), r'a: Invalid value: "x\"\x7f": why'),
    "integer": (field.invalid(Path("a"), 3, "why"), "a: Invalid value: 3: why"),
    "float": (field.invalid(Path("a"), 1e6, "why"), "a: Invalid value: 1e+06: why"),
    "float within": (field.invalid(Path("a"), [1e6], "why"), "a: Invalid value: [1000000]: why"),
    "boolean": (field.invalid(Path("a"), True, "why"), "a: Invalid value: true: why"),
    "null": (field.invalid(Path("a"), None, "why"), "a: Invalid value: null: why"),
    "object": (field.invalid(Path("a"), {"b": 1, "a": "<"}, "why"), r'a: Invalid value: {"a":"\u003c","b":1}: why'),
    "members in an order of their own": (
        field.invalid(Path("a"), RawJSON('{"b":1,"a":2}'), ""),
        'a: Invalid value: {"b":1,"a":2}',
    ),
    "type": (field.type_invalid(Path("a"), "string", "why"), 'a: Invalid value: "string": why'),
    "duplicate": (field.duplicate(Path("a"), {"k": "v"}), 'a: Duplicate value: {"k":"v"}'),
    "not supported": (field.not_supported(Path("a"), "x", ["b", "c"]), 'a: Unsupported value: "x": supported values: "b", "c"'),
    "nothing supported": (field.not_supported(Path("a"), 1, []), "a: Unsupported value: 1"),
    "forbidden": (field.forbidden(Path("a"), "why"), "a: Forbidden: why"),
    "too long": (field.too_long(Path("a"), 5), "a: Too long: may not be more than 5 bytes"),
    "too long for one": (field.too_long(Path("a"), 1), "a: Too long: may not be more than 1 byte"),
    "too many": (field.too_many(Path("a"), 4, 3), "a: Too many: 4: must have at most 3 items"),
    "too many for one": (field.too_many(Path("a"), 2, 1), "a: Too many: 2: must have at most 1 item"),
    "internal": (field.internal_error(Path("a"), "why"), "a: Internal error: why"),
}


@pytest.mark.parametrize(("error", "text"), ERRORS.values(), ids=ERRORS)
def test_text(error: FieldError, text: str) -> None:
    assert str(error) == text
    assert error.body() == text.split(": ", 1)[1]


def test_texts_are_asked_for_until_a_response_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field, "_MAX_BYTES", 3)
    texts = iter(["ab", "c", "d", "e", "f"])
    assert field.first_that_fit(texts) == ["ab", "c", "d"]
    assert list(texts) == ["e", "f"]
    assert field.first_that_fit(["abcdef", "g"]) == ["abcdef"]


def test_paths_are_values() -> None:
    assert Path("a").child("b") == Path("a.b")
    assert len({Path("a").index(0), Path("a[0]")}) == 1
