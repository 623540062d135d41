"""What only a cluster with nodes and pods can show, run by `python -m tests.kind`; no part of `make test`."""
