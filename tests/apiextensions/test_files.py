"""Files: what a folder defines, what is wrong with it, and what becomes of it as it changes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from aggserver.apiextensions.files import FolderSource, Loaded
from aggserver.schema.rules import UPSTREAM, RuleOptions
from tests.fakes.clock import FakeClock


def crd(plural: str = "crontabs", group: str = "example.com", **spec: Any) -> dict[str, Any]:
    """JSON is YAML too."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.title()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        }
        | spec,
    }


def write(path: Path, *documents: Any) -> None:
    """Documents that are strings are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n---\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents))


def load(folder: Path, rule_options: RuleOptions = UPSTREAM) -> Loaded:
    """What is found at the first look."""
    loaded = FolderSource(folder, lambda _: None, rule_options).poll()
    assert loaded is not None
    return loaded


def names(loaded: Loaded | None) -> list[str]:
    assert loaded is not None
    return [definition.name.partition(".")[0] for definition in loaded.definitions]


def problems(loaded: Loaded | None) -> list[str]:
    assert loaded is not None
    return [str(problem) for problem in loaded.problems]


def test_every_file_below(tmp_path: Path) -> None:
    write(tmp_path / "b.yaml", "# only a comment", crd("bs"), "", crd("cs"))
    write(tmp_path / "a.yml", crd("as"))
    write(tmp_path / "sub" / "d.json", crd("ds"))
    write(tmp_path / "readme.txt", "no definition")
    write(tmp_path / ".hidden.yaml", "- no definition")
    write(tmp_path / ".git" / "x.yaml", "- no definition")
    loaded = load(tmp_path)
    assert names(loaded) == ["as", "bs", "cs", "ds"]
    assert problems(loaded) == []


def test_options_of_rules(tmp_path: Path) -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "'a' in self.metadata.labels"}]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    write(tmp_path / "a.yaml", crd("as", versions=[version]))
    assert names(load(tmp_path)) == []
    assert names(load(tmp_path, RuleOptions(sees_labels=True))) == ["as"]


def test_lists(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", {"apiVersion": "v1", "kind": "List", "items": [crd("as"), crd("bs")]})
    write(
        tmp_path / "b.json",
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList", "items": [crd("cs")]},
    )
    assert names(load(tmp_path)) == ["as", "bs", "cs"]


def test_what_a_cluster_printed(tmp_path: Path) -> None:
    """kubectl get crd -o yaml: the status is another server's, and unknown fields go as everywhere."""
    printed = crd(
        versions=[{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"x-foo": 1, "type": "object"}}}]
    )
    printed["metadata"] |= {"uid": "1", "generation": 2, "creationTimestamp": "2020-01-01T00:00:00Z"}
    printed["status"] = {"storedVersions": ["v0"], "conditions": "broken"}
    write(tmp_path / "a.yaml", printed)
    loaded = load(tmp_path)
    assert problems(loaded) == []
    assert loaded.definitions[0].storage_version.schema == {"type": "object"}


def test_mounted_config_map(tmp_path: Path) -> None:
    """Files are links into a hidden folder, itself a link to another: each counts once; a change of the inner link is seen."""
    write(tmp_path / "..1" / "a.yaml", crd("as"))
    write(tmp_path / "..1" / "sub" / "b.yaml", crd("bs"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "sub").symlink_to("..data/sub")
    source = FolderSource(tmp_path, lambda _: None)
    assert names(source.poll()) == ["as", "bs"]
    assert source.poll() is None

    write(tmp_path / "..2" / "a.yaml", crd("cs"))
    write(tmp_path / "..2" / "sub" / "b.yaml", crd("bs"))
    (tmp_path / "..next").symlink_to("..2")
    os.replace(tmp_path / "..next", tmp_path / "..data")
    loaded = source.poll()
    assert names(loaded) == ["cs", "bs"]
    assert problems(loaded) == []


def test_a_link_that_leads_back(tmp_path: Path) -> None:
    write(tmp_path / "sub" / "a.yaml", crd("as"))
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    assert names(load(tmp_path)) == ["as"]
    assert problems(load(tmp_path)) == []


def test_v1beta1(tmp_path: Path) -> None:
    old = crd("as") | {"apiVersion": "apiextensions.k8s.io/v1beta1"}
    write(
        tmp_path / "a.yaml",
        old,
        {"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinitionList", "items": [crd("bs")]},
    )
    assert names(load(tmp_path)) == ["as", "bs"]
    assert problems(load(tmp_path)) == []


BROKEN: dict[str, tuple[Any, str]] = {
    "another kind": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
        "a.yaml, document 2 (x): is a ConfigMap of v1: only CustomResourceDefinitions of apiextensions.k8s.io/v1 are read",
    ),
    "another version": (
        crd() | {"apiVersion": "apiextensions.k8s.io/v1alpha1"},
        "a.yaml, document 2 (crontabs.example.com): is a CustomResourceDefinition of apiextensions.k8s.io/v1alpha1: "
        "only CustomResourceDefinitions of apiextensions.k8s.io/v1 are read",
    ),
    "no object": ("- 1", "a.yaml, document 2: is no object: only CustomResourceDefinitions of apiextensions.k8s.io/v1 are read"),
    "a rule": (
        crd(scope="Galaxy"),
        "a.yaml, document 2 (crontabs.example.com): spec.scope: "
        'Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
    ),
    "a type": (
        crd(group=5),
        "a.yaml, document 2 (crontabs.5): spec.group: Invalid value: 5: must be a string",
    ),
    "metadata": (
        crd() | {"metadata": {"name": "crontabs.example.com", "labels": 5}},
        "a.yaml, document 2 (crontabs.example.com): metadata: Invalid value: {...}: "
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string",
    ),
    "labels": (
        crd() | {"metadata": {"name": "crontabs.example.com", "finalizers": [""]}},
        'a.yaml, document 2 (crontabs.example.com): metadata.finalizers: Invalid value: "": name part must be non-empty',
    ),
}


@pytest.mark.parametrize(("document", "text"), BROKEN.values(), ids=BROKEN)
def test_others_are_served(document: Any, text: str, tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", crd("as"), document, crd("bs"))
    write(tmp_path / "b.yaml", crd("cs"))
    loaded = load(tmp_path)
    assert names(loaded) == ["as", "bs", "cs"]
    assert problems(loaded)[0] == text


def test_no_yaml(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", crd("as"), "a: [", crd("bs"))
    write(tmp_path / "b.json", "{")
    loaded = load(tmp_path)
    assert names(loaded) == ["as", "bs"]
    first, second = loaded.problems
    assert (first.file, first.document, first.name) == ("a.yaml", 2, "")
    assert (second.file, second.document, second.name) == ("b.json", 1, "")


def test_one_name_twice(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", crd())
    write(tmp_path / "b.yaml", crd("as"), crd(scope="Cluster"))
    loaded = load(tmp_path)
    assert names(loaded) == ["crontabs", "as"]
    assert loaded.definitions[0].namespaced
    assert problems(loaded) == ["b.yaml, document 2 (crontabs.example.com): metadata.name: is defined in a.yaml already"]


def test_names_within_a_group(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", crd("as"), crd("bs", "other.com", names={"plural": "bs", "kind": "As"}))
    write(tmp_path / "b.yaml", crd("bs", names={"plural": "bs", "kind": "As", "listKind": "Bs"}))
    loaded = load(tmp_path)
    assert names(loaded) == ["as", "bs"]
    assert problems(loaded) == ['b.yaml, document 1 (bs.example.com): spec.names: "As" is already in use']


def test_no_folder(tmp_path: Path) -> None:
    loaded = load(tmp_path / "none")
    assert loaded.definitions == ()
    assert problems(loaded) == [f"{tmp_path / 'none'}: can't be read: No such file or directory"]


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("nothing")
    assert problems(load(tmp_path)) == ["a.yaml: can't be read: No such file or directory"]


# --- changes ---


def test_changes(tmp_path: Path) -> None:
    source = FolderSource(tmp_path, lambda _: None)
    assert names(source.poll()) == []
    assert source.poll() is None
    write(tmp_path / "a.yaml", crd("as"))
    assert names(source.poll()) == ["as"]
    assert source.poll() is None
    write(tmp_path / "a.yaml", crd("as"), crd("bs"))
    assert names(source.poll()) == ["as", "bs"]
    (tmp_path / "a.yaml").rename(tmp_path / "b.yaml")
    assert names(source.poll()) == ["as", "bs"]
    (tmp_path / "b.yaml").unlink()
    assert names(source.poll()) == []


def test_a_broken_change_keeps_what_was(tmp_path: Path) -> None:
    source = FolderSource(tmp_path, lambda _: None)
    write(tmp_path / "a.yaml", crd("as"), crd("bs"))
    source.poll()

    write(tmp_path / "a.yaml", "a: [")
    loaded = source.poll()
    assert names(loaded) == ["as", "bs"]
    assert loaded is not None
    assert len(loaded.problems) == len(loaded.new_problems) == 1

    write(tmp_path / "b.yaml", crd("cs"))
    loaded = source.poll()
    assert names(loaded) == ["as", "bs", "cs"]
    assert loaded is not None
    assert len(loaded.problems) == 1
    assert loaded.new_problems == ()

    write(tmp_path / "a.yaml", crd("as", scope="Cluster"))
    loaded = source.poll()
    assert names(loaded) == ["as", "cs"]
    assert problems(loaded) == []


def test_only_what_is_broken_is_kept(tmp_path: Path) -> None:
    """The broken document has a name, so that the one that is missing was taken out on purpose."""
    source = FolderSource(tmp_path, lambda _: None)
    write(tmp_path / "a.yaml", crd("as"), crd("bs"), crd("cs"))
    source.poll()
    write(tmp_path / "a.yaml", crd("as", scope="Galaxy"), crd("bs", scope="Cluster"))
    loaded = source.poll()
    assert sorted(names(loaded)) == ["as", "bs"]
    assert loaded is not None
    assert {definition.name: definition.namespaced for definition in loaded.definitions} == {
        "as.example.com": True,
        "bs.example.com": False,
    }


def test_who_is_served_keeps_the_name(tmp_path: Path) -> None:
    source = FolderSource(tmp_path, lambda _: None)
    write(tmp_path / "b.yaml", crd())
    source.poll()
    write(tmp_path / "a.yaml", crd(scope="Cluster"))
    loaded = source.poll()
    assert loaded is not None
    assert loaded.definitions[0].namespaced
    assert problems(loaded) == ["a.yaml, document 1 (crontabs.example.com): metadata.name: is defined in b.yaml already"]
    (tmp_path / "b.yaml").unlink()
    loaded = source.poll()
    assert loaded is not None
    assert not loaded.definitions[0].namespaced
    assert problems(loaded) == []


def test_a_folder_that_goes_away(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write(folder / "a.yaml", crd("as"))
    source = FolderSource(folder, lambda _: None)
    source.poll()
    folder.rename(tmp_path / "elsewhere")
    loaded = source.poll()
    assert names(loaded) == ["as"]
    assert problems(loaded) == [f"{folder}: can't be read: No such file or directory"]
    assert source.poll() is None
    (tmp_path / "elsewhere").rename(folder)
    assert problems(source.poll()) == []


async def test_run(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    clock = FakeClock()
    enough = asyncio.Event()

    def on_change(loaded: Loaded) -> None:
        seen.append(names(loaded))

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        if len(clock.slept) == 2:
            write(tmp_path / "a.yaml", crd("as"))
        if len(clock.slept) == 4:
            enough.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(FolderSource(tmp_path, on_change).run(sleep, 5.0))
    await enough.wait()
    task.cancel()
    assert seen == [[], ["as"]]
    assert clock.slept == [5.0] * 4
