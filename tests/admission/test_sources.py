from __future__ import annotations

from typing import Any

from aggserver.admission.sources import Collection


def made(name: str, version: int, namespace: str = "", **more: Any) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, "resourceVersion": str(version), **where}, **more}


def test_it_holds_what_was_put() -> None:
    known = Collection()
    known.put(made("a", 1))
    known.put(made("q", 2, "team"))
    known.put(made("q", 3, "other"))
    assert [obj["metadata"]["resourceVersion"] for obj in known] == ["1", "2", "3"]
    assert len(known) == 3
    assert known.get("team", "q") == made("q", 2, "team")
    assert known.get("team", "r") is None
    assert list(known.within("other")) == ["q"]
    assert known.within("none") == {}
    known.remove("team", "q")
    known.remove("team", "q")
    assert known.within("team") == {}
    assert len(known) == 2


def test_the_generation_grows_with_every_change() -> None:
    known = Collection()
    seen = [known.generation]
    known.put(made("a", 1))
    seen.append(known.generation)
    known.put(made("a", 2))
    seen.append(known.generation)
    known.put_written(made("a", 3))
    seen.append(known.generation)
    known.remove("", "a")
    seen.append(known.generation)
    assert seen == sorted(set(seen))
    known.remove("", "a")
    assert known.generation == seen[-1]


def test_managed_fields_are_not_kept() -> None:
    known = Collection()
    obj = made("a", 1)
    obj["metadata"]["managedFields"] = [{}]
    known.put(obj)
    assert known.get("", "a") == made("a", 1)


def test_what_was_learned_holds_until_the_watch_has_it() -> None:
    known = Collection()
    known.put(made("q", 10, "team"))
    known.put_written(made("q", 12, "team"))
    known.put(made("q", 11, "team"))
    assert known.get("team", "q") == made("q", 12, "team")
    known.put(made("q", 12, "team"))
    # From here on the watch alone counts, also after the cluster was restored from a backup.
    known.put(made("q", 5, "team"))
    assert known.get("team", "q") == made("q", 5, "team")


def test_nothing_is_learned_of_what_is_older_or_gone() -> None:
    known = Collection()
    known.put_written(made("q", 1, "team"))
    assert known.get("team", "q") is None
    known.put(made("q", 10, "team"))
    known.put_written(made("q", 9, "team"))
    assert known.get("team", "q") == made("q", 10, "team")
    known.put_written(made("q", 11, "team"))
    known.remove("team", "q")
    known.put(made("q", 4, "team"))
    assert known.get("team", "q") == made("q", 4, "team")
