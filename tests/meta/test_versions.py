import pytest

from aggserver.meta.versions import GroupVersionKind, api_version, compare, parse_group_version, sort_key


def test_order() -> None:
    preferred = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "V1", "foo1", "foo10", "v1x"]
    jumbled = [*preferred[6:], *preferred[3:6], *preferred[:3]]
    assert sorted(jumbled, key=sort_key) == preferred


PAIRS = {
    "same": ("v1", "v1", 0),
    "higher": ("v2", "v1", 1),
    "released before beta": ("v1", "v2beta1", 1),
    "beta before alpha": ("v1beta1", "v2alpha9", 1),
    "others last": ("foo", "v1alpha1", -1),
    "others by the alphabet": ("bar", "foo", 1),
    "leading zero": ("v01", "v1", 0),
    "past 64 bits is no number": ("v9223372036854775808", "v1alpha1", -1),
    "thousands of digits are no number": ("v" + "9" * 5000, "v1alpha1", -1),
}


@pytest.mark.parametrize(("left", "right", "expected"), PAIRS.values(), ids=PAIRS)
def test_compare(left: str, right: str, expected: int) -> None:
    assert compare(left, right) == expected
    assert compare(right, left) == -expected


@pytest.mark.parametrize(("text", "parsed"), [("v1", ("", "v1")), ("g.io/v1", ("g.io", "v1")), ("", ("", "")), ("/", ("", ""))])
def test_parse_group_version(text: str, parsed: tuple[str, str]) -> None:
    assert parse_group_version(text) == parsed


def test_parse_group_version_refuses() -> None:
    with pytest.raises(ValueError, match=r"^unexpected GroupVersion string: a/b/c$"):
        parse_group_version("a/b/c")


def test_kind() -> None:
    kind = GroupVersionKind.of({"apiVersion": "g.io/v1", "kind": "K"})
    assert kind == GroupVersionKind("g.io", "v1", "K")
    assert (str(kind), kind.api_version, api_version("", "v1")) == ("g.io/v1, Kind=K", "g.io/v1", "v1")
    assert GroupVersionKind.of({}) == GroupVersionKind("", "", "")
