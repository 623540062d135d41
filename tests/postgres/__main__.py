"""`python -m tests.postgres`: the example with PostgreSQL. Root on Debian gets the database's packages where they are missing.

asyncpg, which only the example needs, is installed into a folder of the cache, and not beside aggserver. Arguments go to pytest.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.binaries import BinariesError, cache_folder, obtain
from tests.controlplane.toolchain import ToolchainError
from tests.postgres.database import EXAMPLE, DatabaseError, install

REPOSITORY = Path(__file__).parents[2]
REQUIREMENTS = EXAMPLE / "requirements.txt"


def main(arguments: list[str]) -> int:
    try:
        install(_say)
        obtain(os.environ, _say)  # kubectl
        library = _library()
    except (BinariesError, DatabaseError, ToolchainError) as error:
        print(error, file=sys.stderr)
        return 1
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY, library, EXAMPLE)))}
    command = [sys.executable, "-m", "pytest", "-q", "tests/postgres/postgres_example.py", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _library() -> Path:
    """The folder with what requirements.txt names. Raises DatabaseError."""
    key = hashlib.sha256(f"{sys.version_info[:2]}\n{REQUIREMENTS.read_text()}".encode()).hexdigest()[:16]
    folder = cache_folder(os.environ).with_name(f"postgres-{key}")
    if not folder.is_dir():
        making = folder.with_name(f"{folder.name}-making")
        _say("installing asyncpg for the example")
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(making), "-r", str(REQUIREMENTS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DatabaseError(f"asyncpg could not be installed:\n{done.stdout}{done.stderr}")
        making.rename(folder)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
