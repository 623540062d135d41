"""The arithmetic of the benchmarks of layers, of Pythons, of replicas and of full lists."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks import fairness, interpreters
from benchmarks.full_lists import Figures, full_lists_document
from benchmarks.layers import LAYERS, OTHER, layer_of, layers_document, profile, samples_of
from benchmarks.millions import FIRST, Column, Figure, copies, millions_document
from benchmarks.replicas import ASIDE, WORK, Cost, Model, model, replicas_document

MADE = {
    "commit": "abc",
    "date": "2026-01-01",
    "machine": {"cores": 2, "processor": "p", "python": "3.11", "kubernetes": "v1.36.3"},
}


@pytest.mark.parametrize(
    ("stack", "layer"),
    [
        ("run (asyncio/runners.py:1);get (aggserver/registry/store.py:2);dumps (orjson/orjson.abi3.so)", "JSON"),
        ("run (asyncio/runners.py:1);get (aggserver/registry/store.py:2);memcpy (libc.so.6)", "store"),
        ("get (aggserver/registry/store.py:2);check (aggserver/schema/validation.py:2)", "schema and CEL"),
        ("UVStream__try_write (loop.c:1);write (libc.so.6)", "sockets"),
        ("SSLProtocol_data_received (loop.c:1);0x7f (libc.so.6)", "TLS"),
        ("run (asyncio/runners.py:1);Handle__run (loop.c:7)", "event loop"),
        ("write (aggserver/server/http2/sender.py:1);state (jh2/stream.py:2)", "jh2"),
        ("next (aggserver/storage/watcher.py:1)", "watchers"),
        ("find (aggserver/storage/cacher.py:1)", "cache"),
        ("commit (aggserver/storage/sqlite_writer.py:1)", "SQLite"),
        ("f (aggserver/endpoints/dispatch.py:1);__init__ (<string>:5)", "dispatch"),
        ("f (aggserver/endpoints/dispatch.py:1);check (<generated from a schema>:5)", "schema and CEL"),
        ("main (program.py:1)", OTHER),
    ],
)
def test_a_stack_belongs_to_its_innermost_layer(stack: str, layer: str) -> None:
    assert layer_of(stack.split(";")) == layer


def test_every_package_has_a_layer() -> None:
    """A package that has none would be its caller's."""
    packages = ("admission", "authentication", "authorization", "endpoints", "merge", "registry", "schema", "server", "storage")
    assert all(layer_of([f"f (aggserver/{name}/some_module.py:1)"]) != OTHER for name in packages)
    assert len({name for name, _ in LAYERS}) == len(LAYERS)


def test_samples_are_counted_by_thread() -> None:
    """What waits is not counted, but for a thread that was only seen waiting."""
    wait = "PyThread_acquire_lock_timed (libpython.so)"
    raw = [
        "thread (7): MainThread;f (aggserver/merge/a.py:1) 3",
        f"thread (7): MainThread;f (aggserver/merge/a.py:1);{wait} 50",
        "thread (7): MainThread;f (aggserver/cel/a.py:1) 1",
        f"thread (9): storage-write;f (aggserver/storage/sqlite_writer.py:1);{wait} 8",
        "",
    ]
    assert samples_of(raw) == {7: Counter({"managedFields": 3, "schema and CEL": 1}), 9: Counter({"SQLite": 8})}


def test_time_is_shared_out_within_each_thread() -> None:
    samples = {7: Counter({"cache": 3, "store": 1}), 9: Counter({"SQLite": 8})}
    found = profile({7: 0.004, 9: 0.001, 11: 0.0005}, 10, samples)
    assert found.microseconds == pytest.approx({"cache": 300, "store": 100, "SQLite": 100, OTHER: 50})
    assert found.samples.total() == 12
    lines = layers_document({"get": found}, MADE).splitlines()
    assert "| SQLite | 100 |" in lines  # eight samples; of the others there are too few
    assert "| **all** | 550 |" in lines
    assert not any(line.startswith("| cache") for line in lines)


def test_the_model() -> None:
    """All requests went to the first of three servers, and the others have followed the writes."""
    found = model(Cost(100.0, 1000, [1.02, 0.22, 0.32], 0.1, seconds=2.0, idle=0.01))
    assert found == pytest.approx(Model(0.001, 0.00025))
    assert [found.factor(servers) for servers in (1, 2, 4)] == pytest.approx([1.0, 1.6, 4 / 1.75])


def test_the_table_of_replicas() -> None:
    one, two, aside = (Cost(50.0, 100, servers, 0.05) for servers in ([0.2], [0.1, 0.08], [0.2, 0.02]))
    text = replicas_document({work.name: {1: one, 2: two, ASIDE: aside} for work in WORK}, 1, MADE)
    assert "| get, 32 clients | 1 | 50/s | 2 | 2 | 0.5 | 1.00x |" in text
    assert "| get, 32 clients | 2 | 50/s | 1 | 1.8 | 0.5 | 2.00x |" in text
    assert "| list limit=500, 4 clients | 2 | 50 pages/s |" in text
    assert "| create, 32 clients | 2 | 0.2 | 1.8x | 3.1x | 4.7x | 6.4x | 10x |" in text


def test_the_table_of_full_lists() -> None:
    """In bold what reaches the aim, which is aggserver's."""
    figures = [
        Figures("kube-apiserver", 4, False, 800_000_000, 60_000_000, 2.0, 101e6),
        Figures("aggserver", 4, False, 200_000_000, 5_000_000, 0.15, 101e6),
        Figures("kube-apiserver", 4, True, 800_000_000, 900_000_000, 3.0, 10e6),
        Figures("aggserver", 4, True, 200_000_000, 65_000_000, 0.3, 10.5e6),
        Figures("kube-apiserver", 16, True, 800_000_000, 5_000_000_000, 0.0, 0.0, "a timeout"),
        Figures("aggserver", 16, True, 200_000_000, 6_000_000, 0.3, 10.5e6),
    ]
    text = full_lists_document(figures, 1000, 100_000, MADE)
    assert "| 4 | 60 MB | **5 MB** | 2,000 / 150 | 101 / 101 |" in text
    assert "| 4, gzip | 900 MB | 65 MB | 3,000 / 300 | 10 / 10.5 |" in text
    assert "| 16, gzip | 5,000 MB, and failed | **6 MB** | n/a / 300 | n/a / 10.5 |" in text
    assert "- kube-apiserver, 16 at once: not all came: a timeout" in text
    assert text.endswith("At rest before the first list: kube-apiserver 800 MB, aggserver 200 MB.")


def test_the_table_of_pythons() -> None:
    costs = {work.name: 100.0 * number for number, work in enumerate(interpreters.WORK, 1)}
    found = {
        interpreters.HERE: interpreters.Figures("3.11.7 without PGO", costs, 120_000_000),
        "3.13": interpreters.Figures("3.13.5 of Debian", costs, 130_400_000),
    }
    lines = interpreters.interpreters_document(found, 2, MADE).splitlines()
    assert lines[-2:] == [
        "| 3.11.7 without PGO (the one of the other tables) | 100 | 200 | 300 | 400 | 500 | 600 | 120 MB |",
        "| 3.13.5 of Debian | 100 | 200 | 300 | 400 | 500 | 600 | 130 MB |",
    ]
    assert lines[2].count("|") == lines[-1].count("|")


def test_copies_are_objects_of_their_own() -> None:
    key = "/bench.aggserver.dev/crontabs/bench/obj-000000"
    uid = "00000000-0000-4000-8000-0000000000ff"
    value = {"metadata": {"labels": {"group": "group-000000"}, "name": "obj-000000", "uid": uid}}
    made = dict(copies(key, json.dumps(value).encode(), 25))
    assert [name[-10:] for name in made] == [f"obj-{count:06}" for count in range(1, 25)]
    objects = [json.loads(text)["metadata"] for text in made.values()]
    assert [obj["name"] for obj in objects] == [name[-10:] for name in made]
    assert len({uid, *(obj["uid"] for obj in objects)}) == 25
    groups = Counter(obj["labels"]["group"] for obj in objects)
    assert groups == {"group-000000": 9, "group-000001": 10, "group-000002": 5}


def test_the_table_of_millions() -> None:
    ours = Column("aggserver", 1000, stored=500, start_seconds=1.0, empty_memory=1_000_000, memory=1_800_000, peak=2_000_000)
    ours.figures[FIRST.title] = Figure(2.5, 40.0)
    ours.failed["list of all"] = "it broke"
    document = millions_document([Column("kube-apiserver", 10), ours], "On a machine.")
    assert document.startswith("On a machine.\n\n| what | kube-apiserver, 10 | aggserver, 1,000 |\n")
    assert f"| {FIRST.title} | n/a | 2.5 s (40 ms) |" in document
    assert "| memory after the first list | 0 MB | 2 MB |" in document
    assert "stored in 500 bytes, and takes 300 bytes of memory beside them; 1 MB are those of an empty server." in document
    assert "- aggserver, 1,000: list of all: it broke" in document


def test_gets_beside_lists() -> None:
    """A row for each load and server; in bold what is within three times of the reader alone."""
    found = [
        fairness.Figures("kube-apiserver", "list-all", 1.0, 2.0, 10.0, 20.0, 50.0),
        fairness.Figures("aggserver", "list-all", 0.5, 1.0, 1.5, 3.0, 100.0),
    ]
    lines = fairness.fairness_document(found, 1000, 200, MADE).splitlines()
    assert lines[-2] == "| all objects as JSON | kube-apiserver | 1 | 2 | 10 | 20 | 10 | 50 |"
    assert lines[-1] == "| all objects as JSON | aggserver | 0.5 | 1 | 1.5 | 3 | **3** | 100 |"
