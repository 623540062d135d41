"""Header blocks, well formed and not: what is refused ends the connection, quietly."""

from __future__ import annotations

import pytest

from tests.server.frames import Peer

COMPRESSION = 9

BLOCKS = {
    "a field of the table": (b"", True),
    "a change of the table's size before all": (b"\x3f\x00", None),
    "a change of the table's size behind all": (b"\x21", False),
    "the same, of more bytes": (b"\x3f\x01", False),
    "a plain string": (b"\x00\x01x\x01y", True),
    "a string that is empty": (b"\x00\x01x\x00", True),
    "a Huffman string that is empty": (b"\x00\x01x\x80", True),
    "a Huffman string": (b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x9f", True),
    "a Huffman string with zeros": (b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90", False),
    "a Huffman string with a zero among ones": (b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x9d", False),
    "a Huffman name with zeros": (b"\x00\x83\x49\x50\x90\x01y", False),
    "a name of the table, and a string behind it": (b"\x53\x01y", True),
    "a name of the dynamic table, and zeros": (b"\x40\x01x\x01y\x0f\x2f\x83\x49\x50\x90", False),
    "a long string": (b"\x00\x01x\x7f\x81\x01" + b"y" * 256, True),
    "an index that is not there": (b"\xff\x7f", False),
    "half a string": (b"\x00\x01x\x05y", False),
    "half a Huffman string": (b"\x00\x01x\x85y", False),
    "half a field": (b"\x00\x01x", False),
    "half a number": (b"\x00\x01x\x7f\x80", False),
    "a number without end": (b"\x00\x01x\x7f" + b"\x80" * 20, False),
}


@pytest.mark.parametrize(("more", "fine"), BLOCKS.values(), ids=BLOCKS)
async def test_header_blocks(more, fine, capfd):
    """Nor does what anybody may send write a decoder's traces into the log."""
    peer = await Peer().open()
    head = peer.head()
    head.data = more + head.data if fine is None else head.data + more
    assert await peer.send(head) is (fine is not False)
    assert peer.goaways() == ([] if fine is not False else [(COMPRESSION, 0)])
    assert capfd.readouterr() == ("", "")
