import pytest

from aggserver.meta.versions import GroupVersionKind, api_version, parse_group_version, sort_key


def test_order() -> None:
    preferred = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "V1", "foo1", "foo10", "v1x"]
    jumbled = [*preferred[6:], *preferred[3:6], *preferred[:3]]
    assert sorted(jumbled, key=sort_key) == preferred


PAIRS = {
    "higher": ("v2", "v1"),
    "a later beta": ("v1beta2", "v1beta1"),
    "released before beta": ("v1", "v2beta1"),
    "beta before alpha": ("v1beta1", "v2alpha9"),
    "others last": ("v1alpha1", "foo"),
    "others by the alphabet": ("bar", "foo"),
    "the largest number": ("v9223372036854775807", "v1"),
    "past 64 bits is no number": ("v1alpha1", "v9223372036854775808"),
    "thousands of digits are no number": ("v1alpha1", "v" + "9" * 5000),
}


@pytest.mark.parametrize(("preferred", "other"), PAIRS.values(), ids=PAIRS)
def test_preferred_comes_first(preferred: str, other: str) -> None:
    assert sort_key(preferred) < sort_key(other)


def test_leading_zeros_make_no_difference() -> None:
    assert sort_key("v01") == sort_key("v1")


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
