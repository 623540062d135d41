"""`aggserver schema`: prints the openAPIV3Schema that a Python class has as a resource, to be kept and compared with the code.

The module is imported from the present folder, as `python -m` does. A dict is taken for a JSON Schema.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from aggserver.input_files import InputError
from aggserver.meta import yaml_output
from aggserver.options import Options
from aggserver.typed import schema
from aggserver.typed.schema import TypeSchema

__all__ = ["run"]


def run(options: Options, say: Callable[[str], None]) -> None:
    """Raises InputError and TypeSchemaError."""
    found = _schema_of(options.type_name)
    if options.output == "json":
        say(json.dumps(found.schema, indent=2, ensure_ascii=False))
    else:
        say(yaml_output.encode(found.schema).decode().removesuffix("\n"))


def _schema_of(name: str) -> TypeSchema[Any]:
    module, _, path = name.partition(":")
    if not module or not path:
        raise InputError(f"{name}: must be MODULE:TYPE, such as shop:Site")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        given: Any = importlib.import_module(module)
        given = reduce(getattr, path.split("."), given)
    except ModuleNotFoundError as error:
        # Of another module that the user's needs, the traceback says more.
        if error.name is None or not module.startswith(error.name):
            raise
        raise InputError(f"{name}: there is no module {error.name} in this folder or on the path") from None
    except AttributeError:
        raise InputError(f"{name}: {module} has no {path}") from None
    return schema.of_dict(given, path) if isinstance(given, Mapping) else schema.of(given)
