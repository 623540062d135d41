from __future__ import annotations

from pathlib import Path

import pytest

from aggserver.app.storage import open_host_etcd
from aggserver.options import parse
from aggserver.storage.interface import Unavailable

FLAGS = ["serve", "--adopt=", "--host-etcd-servers", "https://127.0.0.1:1"]


async def test_without_servers_there_is_none() -> None:
    assert await open_host_etcd(parse(FLAGS[:2], {})) is None


async def test_a_bad_file_is_told_with_the_option_that_names_it(tmp_path: Path) -> None:
    bad = tmp_path / "ca.crt"
    bad.write_text("no certificate")
    with pytest.raises(Unavailable, match=f"--host-etcd-cafile {bad}: there is no certificate in PEM"):
        await open_host_etcd(parse([*FLAGS, "--host-etcd-cafile", str(bad)], {}))
