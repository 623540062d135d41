import pytest

from aggserver.storage.jumps import KEY, MOST, Jump, decode, encode, follows, reach_back

TWO = [Jump(10, 100), Jump(120, 1000)]


def test_jumps_are_written_and_read():
    assert decode(encode(TWO)) == TWO
    many = [Jump(10 * n, 10 * n + 5) for n in range(2 * MOST)]
    assert decode(encode(many)) == many[-MOST:]


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b'{"jumps":[]}', b'{"jumps":[[1]]}', b'{"jumps":[["1","2"]]}', b'{"jumps":1}']
)
def test_what_is_no_list_of_jumps_is_refused(value: bytes):
    with pytest.raises(ValueError):
        decode(value)


@pytest.mark.parametrize(
    ("before", "revision", "key", "value", "expected"),
    [
        pytest.param(5, 6, "/g.io/foos/a", b"", True, id="the next one"),
        pytest.param(5, 7, "/g.io/foos/a", b"", False, id="one is missing"),
        pytest.param(120, 1000, KEY, encode(TWO), True, id="a jump"),
        pytest.param(700, 1000, KEY, encode(TWO), True, id="from within the gap"),
        pytest.param(119, 1000, KEY, encode(TWO), False, id="one is missing before the jump"),
        pytest.param(120, 1001, KEY, encode(TWO), False, id="another jump's revision"),
        pytest.param(10, 100, KEY, encode(TWO), False, id="an earlier jump"),
        pytest.param(1200, 1000, KEY, encode(TWO), False, id="backwards"),
        pytest.param(120, 1000, "/g.io/foos/a", encode(TWO), False, id="another key"),
        pytest.param(120, 1000, KEY, None, False, id="a deletion"),
        pytest.param(120, 1000, KEY, b"{", False, id="a damaged value"),
    ],
)
def test_which_event_may_come_next(before: int, revision: int, key: str, value: bytes | None, expected: bool):
    assert follows(before, revision, key, value) is expected


@pytest.mark.parametrize("count", range(1, 60))
@pytest.mark.parametrize("jumps", [[], TWO[1:], TWO], ids=len)
def test_so_many_writes_are_kept(jumps: list[Jump], count: int):
    newest = 1010
    skipped = {revision for jump in jumps for revision in range(jump.after + 1, jump.to)}
    written = [revision for revision in range(1, newest + 1) if revision not in skipped]
    assert len([revision for revision in written if revision > reach_back(newest, count, jumps)]) == min(count, len(written))
