"""Every case of h2spec against the server, over TLS: all pass."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.h2spec import suite
from tests.server.running import Running

# One that ran less has looked at less.
CASES = 146

# h2spec takes the limit of a frame for 16,384 bytes in http2/4.2/3, whatever the server allows, and would wait for a refusal. Its
# five headers of this length, of 7 bits for each letter, are a frame of more than the 262,144 that ours allows.
LENGTH = "--max-header-length=70000"
# Has to be answered, and is refused with headers of that length, which are too many bytes together: asked with short ones.
SHORT_HEADERS = "http2/6.10/1"


async def answer(scope, receive, send):
    """Enough bytes for windows of a few to matter."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"x" * 100})


@pytest.mark.integration
async def test_h2spec(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    program = suite.build(os.environ, say)
    async with Running(app=answer) as running:
        results, output = await suite.run(program, running.port, tmp_path, LENGTH)
        again, more = await suite.run(program, running.port, tmp_path, SHORT_HEADERS)
    assert SHORT_HEADERS in results
    (results[SHORT_HEADERS],) = again.values()
    assert {name: outcome for name, outcome in results.items() if outcome != "PASS"} == {}, output[-20_000:] + more
    assert len(results) == CASES
