"""The fenced blocks of README.md and docs/, and the commands in those of a shell.

In a block of `sh` every line is a command; in one of `console` commands stand after `$ `, and below each what it prints. A block
of `bash` is a script as a whole, which the test of its page runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGES", "REPOSITORY", "Block", "Command", "blocks", "commands", "printed_by"]

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

_BLOCK = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_CONTINUED = re.compile(r" *\\\n\s*")
_COMMENT = re.compile(r"\s+# .*")


class Block(NamedTuple):
    page: str
    language: str
    text: str


class Command(NamedTuple):
    page: str
    text: str
    printed: str


def blocks() -> list[Block]:
    return [Block(page.name, language, text) for page in PAGES for _, language, text in re.findall(_BLOCK, page.read_text())]


def commands() -> list[Command]:
    """All of them, in the order of the pages. `page` is the file's name."""
    found = []
    for page, language, text in blocks():
        if language == "sh":
            lines = _CONTINUED.sub(" ", text).splitlines()
            found += [Command(page, _COMMENT.sub("", line), "") for line in lines if line]
        elif language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, printed = part.partition("\n")
                found.append(Command(page, _COMMENT.sub("", line), printed))
    return found


def printed_by(text: str) -> str:
    """What stands below the command, on whichever page has it."""
    [printed] = {command.printed for command in commands() if command.text == text}
    return printed
