"""Options: all settings of an operator, from flags, environment variables and a YAML file, as one frozen value.

Only `cli.py` and `app` import this package; they hand plain values to the packages below. `table.py` is the table of options,
with a module for each topic, such as `serving.py`. `convert.py` parses their values, `checks.py` compares them, `reading.py`
reads the three sources, `completion.py` prints shell completion scripts.
"""

from aggserver.options.access import AUTHORIZATION_MODES
from aggserver.options.admission import ADMISSION_PLUGINS
from aggserver.options.checks import OptionsError
from aggserver.options.commands import ADOPT, STORAGE
from aggserver.options.controllers import is_controller_enabled
from aggserver.options.reading import parse
from aggserver.options.shown import shown
from aggserver.options.table import Options

__all__ = [
    "ADMISSION_PLUGINS",
    "ADOPT",
    "AUTHORIZATION_MODES",
    "STORAGE",
    "Options",
    "OptionsError",
    "is_controller_enabled",
    "parse",
    "shown",
]
