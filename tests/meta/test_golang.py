import pytest

from aggserver.meta import golang

QUOTED = {
    "plain": ("abc", '"abc"'),
    "empty": ("", '""'),
    "quotes and backslash": ('a"b\\', r'"a\"b\\"'),
    "escapes with letters": ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
    "other control characters": ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
    "printable of any script": ("é日😀", '"é日😀"'),
    "not printable": ("\u200b\xa0\ufeff\U000e0001", r'"\u200b\u00a0\ufeff\U000e0001"'),
}


@pytest.mark.parametrize(("text", "quoted"), QUOTED.values(), ids=QUOTED)
def test_quote(text: str, quoted: str) -> None:
    assert golang.quote(text) == quoted


FLOATS = {
    "fraction": (1.5, "1.5", "1.5"),
    "whole": (100000.0, "100000", "100000"),
    "a million": (1e6, "1e+06", "1000000"),
    "digits and exponent": (123456789.5, "1.234567895e+08", "123456789.5"),
    "last without exponent in JSON": (1e20, "1e+20", "100000000000000000000"),
    "first with exponent in JSON": (1e21, "1e+21", "1e+21"),
    "small": (0.0001, "0.0001", "0.0001"),
    "smaller": (0.00001, "1e-05", "0.00001"),
    "smallest without exponent in JSON": (0.000001, "1e-06", "0.000001"),
    "first small with exponent in JSON": (2.5e-7, "2.5e-07", "2.5e-7"),
    "three digits of exponent": (5e-324, "5e-324", "5e-324"),
    "negative zero": (-0.0, "-0", "-0"),
}


@pytest.mark.parametrize(("value", "plain", "as_json"), FLOATS.values(), ids=FLOATS)
def test_floats(value: float, plain: str, as_json: str) -> None:
    assert golang.format_float(value) == plain
    assert golang.to_json(value) == as_json


@pytest.mark.parametrize(("value", "text"), [(float("nan"), "NaN"), (float("inf"), "+Inf"), (-float("inf"), "-Inf")])
def test_floats_without_digits(value: float, text: str) -> None:
    assert golang.format_float(value) == text


JSON = {
    "keys are sorted": ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
    "html is escaped": ({"<": "a&b>\u2028"}, r'{"\u003c":"a\u0026b\u003e\u2028"}'),
    "text": ('é"\n\x01', r'"é\"\n\u0001"'),
}


@pytest.mark.parametrize(("value", "text"), JSON.values(), ids=JSON)
def test_json(value: object, text: str) -> None:
    assert golang.to_json(value) == text


INTEGRAL = {
    "whole": (1.0, 1),
    "fraction": (1.5, 1.5),
    "past 53 bits the digits count": (1.2345678901234567e18, 1234567890123456800),
    "past 64 bits": (1e19, 1e19),
    "the largest that Go writes too long": (float(2**63), float(2**63)),
}


@pytest.mark.parametrize(("value", "expected"), INTEGRAL.values(), ids=INTEGRAL)
def test_from_float(value: float, expected: float) -> None:
    found = golang.from_float(value)
    assert (type(found), found) == (type(expected), expected)


UINTS: dict[str, int | str] = {
    "0": 0,
    "007": 7,
    "18446744073709551615": (1 << 64) - 1,
    "18446744073709551616": "value out of range",
    "0" * 5000 + "1": 1,
    "9" * 5000: "value out of range",
    **dict.fromkeys(("", "-1", "+1", " 1", "1_000", "٣"), "invalid syntax"),
}
INTS: dict[str, int | str] = {
    "-0": 0,
    "+7": 7,
    "9223372036854775807": (1 << 63) - 1,
    "-9223372036854775808": -(1 << 63),
    "9223372036854775808": "value out of range",
    "-9223372036854775809": "value out of range",
    "-" + "0" * 5000 + "1": -1,
    "-" + "9" * 5000: "value out of range",
    **dict.fromkeys(("", "+", "--1", " 1", "1_000", "0x1", "٣", 'a"b'), "invalid syntax"),
}


@pytest.mark.parametrize(
    ("function", "text", "wanted"),
    [
        *(("ParseUint", text, wanted) for text, wanted in UINTS.items()),
        *(("ParseInt", text, wanted) for text, wanted in INTS.items()),
    ],
    ids=lambda value: str(value)[:22],
)
def test_parse(function: str, text: str, wanted: int | str) -> None:
    parse = golang.parse_uint if function == "ParseUint" else golang.parse_int
    if isinstance(wanted, int):
        assert parse(text) == wanted
        return
    with pytest.raises(ValueError, match=f"{wanted}$") as refused:
        parse(text)
    assert str(refused.value) == f"strconv.{function}: parsing {golang.quote(text)}: {wanted}"
