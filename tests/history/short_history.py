"""`python -m tests.history.short_history dev ...`: aggserver with a history of seconds, for clients that come too late.

The store is compacted every second, and the watch cache keeps only its last events: most of what clients come back for is then
read from the store's history, or gone.
"""

from __future__ import annotations

import functools
import sys

from aggserver import cli
from aggserver.app import standalone
from aggserver.storage import changes
from aggserver.storage.compactor import compact_regularly

if __name__ == "__main__":
    changes.FRESH = 0.2
    changes.MIN_EVENTS = 20
    standalone.compact_regularly = functools.partial(compact_regularly, interval=1.0)  # type: ignore[attr-defined]
    sys.exit(cli.main())
