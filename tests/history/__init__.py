"""The event history checker: writers and many clients on a running server, and the proof that every client saw the truth.

`recording.py` is what is written down, `truth.py` makes the one history of it, `checker.py` holds the clients' recordings of
watches against that, `informers.py` what the handlers of informers were told, `sources.py` the same for resources whose revisions
are those of each server. These are pure, and have tests of their own: `test_checker.py`, `test_informers.py`, `test_sources.py`.
`clients.py`, `writers.py`, `servers.py` and `scenarios.py` drive servers, for `tests/integration/test_history.py` and for
`python -m tests.history`.
"""
