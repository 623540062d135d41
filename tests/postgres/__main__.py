"""`python -m tests.postgres`: the example with PostgreSQL, and `--storage etcd` on kine over it.

Root on Debian gets the database's packages where they are missing.

asyncpg, which only the example needs, is installed into a folder of the cache, and not beside aggserver. Arguments go to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.toolchain import ToolchainError
from tests.packages import PackagesError, installed
from tests.postgres.database import EXAMPLE, DatabaseError, install

REPOSITORY = Path(__file__).parents[2]
TESTS = ("tests/postgres/postgres_example.py", "tests/postgres/kine_on_postgres.py")
REQUIREMENTS = EXAMPLE / "requirements.txt"


def main(arguments: list[str]) -> int:
    try:
        install(_say)
        obtain(os.environ, _say)  # kubectl
        library = installed("postgres", REQUIREMENTS, os.environ, _say)
    except (BinariesError, DatabaseError, PackagesError, ToolchainError) as error:
        print(error, file=sys.stderr)
        return 1
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY, library, EXAMPLE)))}
    command = [sys.executable, "-m", "pytest", "-q", *TESTS, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
