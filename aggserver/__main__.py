"""`python -m aggserver`: the same as the `aggserver` command."""

import sys

from aggserver.cli import main

sys.exit(main())
