"""The files of a new project. What they say about themselves is for somebody who has never seen an App. Pure."""

from __future__ import annotations

__all__ = ["files"]

_APP = '''"""Notes that kubectl can list, show, create and delete. Put your own data in their place."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aggserver import App, ListRequest, Metadata, Request


@dataclass
class Note:
    """What `kubectl explain notes` says."""

    metadata: Metadata
    text: str
    done: bool = False


class Notes:
    """Where the notes are: here in memory, and lost at the end. In its place comes a client of your database or service."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Note] = {}


@asynccontextmanager
async def connect() -> AsyncGenerator[Notes, None]:
    yield Notes()  # from here on it is `request.state`


app = App(connect)
notes = app.virtual("MODULE.example.com/v1", Note, columns={"Text": ".text", "Done": ".done"})


@notes.list
async def list_notes(request: ListRequest[Notes]) -> Iterable[Note]:
    return list(request.state.rows.values())


@notes.get
async def get_note(request: Request[Notes], name: str) -> Note | None:
    return request.state.rows.get((request.namespace, name))


@notes.create
async def create_note(request: Request[Notes], new: Note) -> Note:
    request.state.rows[new.metadata.namespace, new.metadata.name] = new
    return new


@notes.delete
async def delete_note(request: Request[Notes], old: Note) -> None:
    del request.state.rows[old.metadata.namespace, old.metadata.name]
'''

_TEST = '''"""The App as its users see it, in this process: `aggserver_app` is a fixture that pytest has of aggserver."""

import pytest
from MODULE import Note, Notes, app

from aggserver import Metadata, StatusError
from aggserver.testing import AppClients


def test_a_note(aggserver_app: AppClients) -> None:
    ann = aggserver_app(app, user="ann", state=Notes())
    ann.create(Note(Metadata("first", "default"), "Hello"))
    assert [note.text for note in ann.list(Note)] == ["Hello"]
    assert not ann.get(Note, "first").done
    ann.delete(Note, "first")
    with pytest.raises(StatusError, match="not found"):
        ann.get(Note, "first")


def test_a_note_needs_a_text(aggserver_app: AppClients) -> None:
    ann = aggserver_app(app, state=Notes())
    note = {"apiVersion": "MODULE.example.com/v1", "kind": "Note", "metadata": {"name": "empty"}}
    with pytest.raises(StatusError, match="text: Required value"):
        ann.post("/apis/MODULE.example.com/v1/namespaces/default/notes", note)
'''

_DOCKERFILE = """FROM aggserver:VERSION
WORKDIR /app
COPY MODULE.py ./
CMD ["serve", "--app", "MODULE:app"]
"""


def files(module: str, version: str) -> dict[str, str]:
    """Name -> text. module: a Python name that can be a part of a domain. version: of the image of aggserver."""
    texts = {f"{module}.py": _APP, f"test_{module}.py": _TEST, "Dockerfile": _DOCKERFILE}
    return {name: text.replace("MODULE", module).replace("VERSION", version) for name, text in texts.items()}
