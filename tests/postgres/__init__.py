"""The example of a source in PostgreSQL (manifests/examples/python/postgres) with a real database from Debian's packages.

`python -m tests.postgres` installs what is needed and runs `postgres_example.py`, which is no part of the other sizes of tests:
they need nothing from a system's packages.
"""
