"""Options: all settings of an operator, from flags, environment variables and a YAML file, as one frozen value.

Only `cli.py` and `app` import this package; they hand plain values to the packages below. `table.py` is the table of options,
`convert.py` parses their values, `reading.py` reads the three sources, `completion.py` prints shell completion scripts.
"""

from aggserver.options.reading import OptionsError, is_controller_enabled, parse
from aggserver.options.table import ADMISSION_PLUGINS, ADOPT, AUTHORIZATION_MODES, STORAGE, Options

__all__ = [
    "ADMISSION_PLUGINS",
    "ADOPT",
    "AUTHORIZATION_MODES",
    "STORAGE",
    "Options",
    "OptionsError",
    "is_controller_enabled",
    "parse",
]
