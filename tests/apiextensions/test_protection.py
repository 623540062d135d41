from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import DELETE, UPDATE, Attributes
from aggserver.apiextensions.protection import ANNOTATION, DefinitionProtection
from aggserver.apiextensions.strategy import INFO
from aggserver.informers.informer import CONTROLLER
from aggserver.meta.errors import StatusError

PROTECTED, OPEN = {ANNOTATION: "true"}, {ANNOTATION: "false"}
# Annotations, objects, whether the flag is set -> whether the deletion is refused.
CASES: dict[str, tuple[Any, int, bool, bool]] = {
    "nobody asked": (None, 5, False, False),
    "annotated": (PROTECTED, 5, False, True),
    "annotated, but empty": (PROTECTED, 0, False, False),
    "by the flag": (None, 1, True, True),
    "by the flag, annotated otherwise": (OPEN, 1, True, False),
    "annotated with something else": ({ANNOTATION: "yes"}, 1, False, False),
}


async def ask(annotations: Any, count: int, everywhere: bool, operation: str = DELETE, **metadata: Any) -> None:
    async def counted(name: str) -> int:
        return count if name == "as.b.example" else 0

    plugin = DefinitionProtection(counted, everywhere=everywhere)
    what = Attributes(operation, CONTROLLER, INFO, "", INFO.kind, INFO.api_version, "", "", dry_run=False)
    old = {"metadata": {"name": "as.b.example", "annotations": annotations, **metadata}}
    await plugin.validate(what, None, old)


@pytest.mark.parametrize(("annotations", "count", "everywhere", "refused"), CASES.values(), ids=CASES)
async def test_protection(annotations: Any, count: int, everywhere: bool, refused: bool) -> None:
    if not refused:
        await ask(annotations, count, everywhere)
        return
    with pytest.raises(StatusError) as caught:
        await ask(annotations, count, everywhere)
    assert caught.value.code == 403
    assert f"{count} object" in str(caught.value)


async def test_what_is_going_already_goes() -> None:
    await ask(PROTECTED, 5, True, deletionTimestamp="2027-01-15T08:00:00Z")


async def test_updates_pass() -> None:
    await ask(PROTECTED, 5, True, UPDATE)
