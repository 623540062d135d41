"""What happened during one test: the requests and their answers, and what each server logged meanwhile.

Whoever starts a server names its log (`follow`), whoever sends requests says what was asked and answered (`exchanged`).
tests/conftest.py begins anew with each test, and writes what there is of one that failed to a file, so that its report need not
have the logs of all tests before it.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path

__all__ = ["begin", "exchange", "exchanged", "follow", "last_exchanges", "write"]

# Of one test: the last exchanges, bytes of what one said or was told, and bytes of each log. A failure is read by a person.
_EXCHANGES = 200
_TEXT = 2_000
_LOG = 2_000_000

_exchanges: deque[str] = deque(maxlen=_EXCHANGES)
# The size that each log had when the test began.
_logs: dict[Path, int] = {}


def follow(log: Path) -> None:
    """A server writes to this file from now on. Its name is what is shown."""
    _logs.setdefault(log, _size(log))


def exchanged(asked: str, answered: str) -> None:
    _exchanges.append(f"> {asked[:_TEXT].rstrip()}\n< {answered[:_TEXT].rstrip()}")


def exchange(method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes | None, status: int, answer: bytes) -> None:
    """The same of a request in HTTP."""
    names = ", ".join(f"{name}: {value}" for name, value in headers if name.lower() != "authorization")
    asked = (body or b"")[:_TEXT].decode(errors="replace")
    exchanged(f"{method} {path} ({names})\n{asked}", f"{status} {answer[:_TEXT].decode(errors='replace')}")


def begin() -> None:
    """Another test begins. Logs that are gone are forgotten."""
    _exchanges.clear()
    for log in list(_logs):
        if log.exists():
            _logs[log] = _size(log)
        else:
            del _logs[log]


def last_exchanges(count: int) -> str:
    return "\n".join(list(_exchanges)[-count:])


def write(folder: Path, test: str) -> Path | None:
    """All of it to a new file in `folder`; None if nothing was asked or logged."""
    parts = [("requests and answers", "\n".join(_exchanges))]
    parts += [(log.name, _since(log, start)) for log, start in _logs.items()]
    text = "\n".join(f"==== {name}\n{content}" for name, content in parts if content.strip())
    if not text:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', test)[-150:]}.log"
    path.write_text(f"{text}\n")
    return path


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _since(log: Path, start: int) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        # A server that was started again begins its log anew.
        size = _size(log)
        begin = start if start <= size else 0
        file.seek(max(begin, size - _LOG))
        return file.read().decode(errors="replace")
    return ""
