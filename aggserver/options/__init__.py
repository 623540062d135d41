"""Options: everything an operator can say, from flags, environment and a YAML file, as one frozen value.

Only `cli.py` and `app` see it; below them go plain values. `table.py` is the table of options, `reading.py` reads them,
`completion.py` makes shells complete them.
"""

from aggserver.options.reading import OptionsError, parse
from aggserver.options.table import STORAGE, Options

__all__ = ["STORAGE", "Options", "OptionsError", "parse"]
