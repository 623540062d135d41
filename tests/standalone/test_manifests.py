"""Objects from files, folders and the standard input: their order, and what is said of those that can't be read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from aggserver.standalone import manifests
from aggserver.standalone.manifests import ManifestError


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: B\nmetadata: {name: b}\n---\n---\nkind: C\nmetadata: {}\n")
    (tmp_path / "a.yml").write_text("kind: A\nmetadata: {}\n")
    (tmp_path / "d.json").write_text(json.dumps({"kind": "D", "metadata": {}}))
    (tmp_path / "README.md").write_text("nothing")
    assert [(Path(file).name, obj["kind"]) for file, obj in manifests.read([str(tmp_path)])] == [
        ("a.yml", "A"),
        ("b.yaml", "B"),
        ("b.yaml", "C"),
        ("d.json", "D"),
    ]
    assert [obj["kind"] for _, obj in manifests.read([str(tmp_path / "d.json"), str(tmp_path / "a.yml")])] == ["D", "A"]


UNREADABLE = {
    # what is in the file: what the error says after its name; None is no file
    None: "No such file or directory",
    "a: [": "",
    "[]": "a document is not a Kubernetes object (it needs apiVersion, kind and metadata)",
    "kind: A": "a document is not a Kubernetes object (it needs apiVersion, kind and metadata)",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_unreadable(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "seed.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ManifestError) as refused:
        manifests.read([str(file)])
    assert str(refused.value).startswith(f"{file}: {UNREADABLE[text]}")


def test_a_list_is_what_is_in_it(tmp_path: Path) -> None:
    """As `kubectl get -o yaml` writes several objects."""
    file = tmp_path / "list.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [{"kind": "A", "metadata": {}}]}))
    assert [obj["kind"] for _, obj in manifests.read([str(file)])] == ["A"]
    file.write_text('{"kind": "List", "items": [{"kind": "A"}]}')
    with pytest.raises(ManifestError, match="is not a Kubernetes object"):
        manifests.read([str(file)])


def test_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"kind: A\nmetadata: {}\n")))
    assert [(origin, obj["kind"]) for origin, obj in manifests.read(["-"])] == [("the standard input", "A")]
