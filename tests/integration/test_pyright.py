"""The examples in Python and the programs of docs/python.md pass pyright in strict mode, which finds what is wrong in a program.

Not the one with PostgreSQL: asyncpg's own types are incomplete.
"""

from __future__ import annotations

from pathlib import Path

from tests.pyright.program import complaints
from tests.resources.test_examples import FOLDER, NAMES
from tests.test_python_page import PROGRAMS

# name: (a line of hello.py, what is written in its place, what is said)
WRONG = {
    "another type of object": ('[Greeting(Metadata("world", "default"))]', '["world"]', "(reportArgumentType)"),
    "an attribute that requests lack": (
        "lambda request: [",
        "lambda request: [] if request.nobody else [",
        "(reportAttributeAccessIssue)",
    ),
    "an option that there is not": (
        '"demo.example.com/v1", Greeting',
        '"demo.example.com/v1", Greeting, pull=1',
        "(reportCallIssue)",
    ),
}


def test_examples(tmp_path: Path) -> None:
    assert complaints(tmp_path, *(FOLDER / name for name in NAMES), paths=[FOLDER]) == []


def test_programs_of_the_page(tmp_path: Path) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    for number, (right, wrong, _) in enumerate(WRONG.values()):
        assert right in PROGRAMS["hello.py"]
        (tmp_path / f"wrong{number}.py").write_text(PROGRAMS["hello.py"].replace(right, wrong))
    found = complaints(tmp_path, *sorted(tmp_path.glob("*.py")))
    assert [each for each in found if not each.startswith("wrong")] == []
    for number, (_, _, said) in enumerate(WRONG.values()):
        assert any(said in each for each in found if each.startswith(f"wrong{number}.py:")), found
