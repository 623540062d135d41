"""Loads the Apps that `--app` names, and serves them.

They are imported before the server's event loop runs, from the current folder or from what is installed, as `python -m` does. A
module that can't be imported ends the start, with the traceback of its own code.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from aggserver.app.engine import Engine
from aggserver.app.errors import StartError
from aggserver.app.tasks import Task
from aggserver.cluster import Cluster
from aggserver.options import Options
from aggserver.registry.environment import Environment
from aggserver.resources.app import App
from aggserver.resources.errors import DeclarationError
from aggserver.resources.following import Sleep
from aggserver.resources.host import Hosting
from aggserver.resources.serving import Elected, ServedApp
from aggserver.typed.schema import TypeSchemaError

__all__ = ["LoadedApps", "load", "serve_apps"]

# (name for log and readiness, App)
LoadedApps = Sequence[tuple[str, App[object]]]

_FORM = "--app takes MODULE:NAME, such as hello:app for `app = App()` in hello.py"


def load(names: Sequence[str]) -> LoadedApps:
    """names: as `module:attribute`. Raises StartError."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: list[tuple[str, App[object]]] = []
    for name in names:
        module, _, attribute = name.partition(":")
        if not module or not attribute.isidentifier():
            raise StartError(f"{name}: {_FORM}")
        if "/" in module or module.endswith(".py"):
            raise StartError(f"{name}: {module} is the name of a file, not of a module. {_FORM}")
        try:
            imported = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name not in (module, module.partition(".")[0]):
                raise _failed(name, error) from error
            raise StartError(f"{name}: there is no module {module} in this folder, nor among the installed ones") from None
        except (DeclarationError, TypeSchemaError):
            # It has its own place: the line of the user's code.
            raise
        except Exception as error:
            raise _failed(name, error) from error
        if not hasattr(imported, attribute):
            raise StartError(f"{name}: {module} has no {attribute}. {_FORM}")
        value: object = getattr(imported, attribute)
        if not isinstance(value, App):
            raise StartError(f"{name}: {attribute} in {module} is no App, but {_described(value)}. {_FORM}")
        if any(value is other for _, other in found):
            raise StartError(f"{name}: this App is named twice")
        found.append((name, value))
    return found


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _failed(name: str, error: Exception) -> StartError:
    # Without the lines of the import machinery and of this module, which tell nobody anything.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = "".join(traceback.format_list(frames[1:]))
    return StartError(f"{name}: its import failed:\n{where}{type(error).__name__}: {error}")


def serve_apps(
    apps: LoadedApps,
    engine: Engine,
    environment: Environment,
    elected: Elected | None = None,
    cluster: Cluster | None = None,
    options: Options | None = None,
    *,
    sleep: Sleep = asyncio.sleep,
) -> list[Task]:
    """Adds their resources to the engine. Returns the tasks that run them. Raises DeclarationError.

    elected: runs the tasks of users on one replica of several; None where there is only one. cluster: the hosting one. options:
    for web applications, None where they are not served. sleep: between attempts of what has failed.
    """

    def serves(group: str) -> bool:
        return any(each.name == group for each in engine.installer.groups())

    hosting = None if cluster is None else Hosting(cluster, serves)
    tasks: list[Task] = []
    claims = engine.definitions.claims
    for name, app in apps:
        served = ServedApp(
            name.replace(":", "-"), app, environment, engine.admission, engine.definitions, elected, hosting, sleep
        )
        for definition, place in served.definitions:
            if before := claims.by(definition.name):
                raise DeclarationError(f"{place}: {definition.name} is declared already, at {before}")
            claims.add(definition, place)
        engine.installer.install(served.resources())
        engine.checks.add(f"app-{served.name}", served.trouble, livez=False)
        engine.on_end_watches(served.end_watches)
        tasks.append((f"app {served.name}", served.run))
    for hooked, place in engine.definitions.waiting_hooks():
        if claims.by(hooked):
            raise DeclarationError(f"{place}: {hooked} is a resource of an App: its hooks are declared by its handle")
    return [*tasks, *web_apps(apps, options)]


def web_apps(apps: LoadedApps, options: Options | None) -> list[Task]:
    """The task that serves what the Apps mount. options: None where only the API is served. Raises StartError."""
    mounts = {path: application for _, app in apps for path, application in app.mounts.items()}
    if not mounts or options is None:
        return []
    if options.web_port is None:
        raise StartError(f"the App mounts {', '.join(sorted(mounts))}: --web-port PORT is needed, 0 for a free one")
    from aggserver.app.web import WebApps

    return [("web applications", WebApps(mounts, options).run)]
