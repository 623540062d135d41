"""The data folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from aggserver.app.storage import data_folder


def test_what_git_ignores_is_the_owner_s_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = data_folder(str(tmp_path / "data"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / ".gitignore").stat().st_mode) == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"
