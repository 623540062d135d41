"""`aggserver dev`: a server of its own, with no cluster.

It serves definitions and namespaces itself, makes its own CA, lets in who has a certificate of that CA, and writes a kubeconfig
with an administrator's. Everything is in one folder, and there again at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from aggserver.apiextensions.controller import DefinitionController
from aggserver.apiextensions.kind import definition_kind
from aggserver.apiextensions.protection import DefinitionProtection
from aggserver.apiextensions.strategy import DefinitionStrategy
from aggserver.apiextensions.v1beta1 import StoredDefinitions, to_v1
from aggserver.app.credentials import Credentials
from aggserver.app.engine import (
    IN_MEMORY,
    Engine,
    compaction,
    data_folder,
    give_back_memory,
    new_environment,
    open_storage,
    supervise,
)
from aggserver.authorization.delegating import StandaloneAuthorizer
from aggserver.endpoints.installer import Served
from aggserver.options import Options
from aggserver.registry.store import Store
from aggserver.schema.rules import RuleOptions
from aggserver.server.certificates import Names
from aggserver.server.serving import Server, bind
from aggserver.server.tls import TLSConfig
from aggserver.standalone import kinds, namespaces, seed
from aggserver.storage.interface import Storage

__all__ = ["run"]

_LOCAL = ("localhost", "127.0.0.1", "::1")


async def run(options: Options, say: Callable[[str], None], on_server: Callable[[Server], None]) -> None:
    """Serves until the server that `on_server` is given is asked to stop. say: prints a line for the person who started it.

    Raises SeedError, Unavailable, OSError (the port is taken), all with a text for that person.
    """
    objects = [(file, to_v1(obj)) for file, obj in seed.read(options.files)]
    async with _folder(options.data) as folder, _storage(options) as storage:
        listener = bind(options.bind_address, options.secure_port)
        tls = TLSConfig(min_version=options.tls_min_version, cipher_suites=options.tls_cipher_suites)
        credentials = Credentials(folder, _names(options), tls, time.time)
        await credentials.start()

        environment = new_environment(storage)
        rule_options = RuleOptions(options.rules_see_labels, options.rules_budget)
        namespace_store = environment.own_store(namespaces.NamespaceStrategy())
        crds = environment.own_store(DefinitionStrategy(rule_options), StoredDefinitions())
        engine = Engine(environment, namespaces.StoredNamespaces(namespace_store), rule_options)
        authorizer = StandaloneAuthorizer(options.authorization_always_allow_paths)
        _install(engine, crds, namespace_store, authorizer, protect_definitions=options.protect_definitions)

        definition_controller = DefinitionController(crds, engine.definitions, time.time)
        namespace_controller = namespaces.NamespaceController(namespace_store, engine.definitions.namespaced_stores)

        background = supervise(
            ("the definitions' controller", definition_controller.run),
            ("the namespaces' controller", namespace_controller.run),
            ("renewing the certificates", credentials.run),
            *compaction(storage, options),
            give_back_memory(),
        )

        def end_watches() -> None:
            background.cancel()  # the controllers watch too, and would begin again
            engine.end_watches()
            for store in (crds, namespace_store):
                store.end_watches()

        server = Server(
            engine.asgi(credentials.authenticator, authorizer, options),
            [listener],
            tls,
            on_stopping=engine.checks.begin_shutdown,
            on_shutdown=end_watches,
            grace=options.shutdown_grace_seconds,
        )
        on_server(server)
        async with background:
            await namespaces.ensure(namespace_store, "default")
            await definition_controller.caught_up()
            await seed.plant(objects, engine.installer, definition_controller.settled)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(server.run())
                await server.listening.wait()
                url = f"https://{_host(options.bind_address)}:{server.port}"
                credentials.publish(url)
                next_step = f"export KUBECONFIG={credentials.kubeconfig.resolve()}; kubectl api-resources"
                data = ",".join(options.etcd_servers) if options.storage == "etcd" else options.data
                say(f"aggserver serves {url} (data: {data}). Next: {next_step}")


@contextlib.asynccontextmanager
async def _folder(data: str) -> AsyncIterator[Path]:
    """Where certificates and kubeconfig lie: the data folder, or one that goes with a server that keeps nothing."""
    if data == IN_MEMORY:
        with tempfile.TemporaryDirectory(prefix="aggserver-") as temporary:
            yield Path(temporary)
        return
    yield data_folder(data)


@contextlib.asynccontextmanager
async def _storage(options: Options) -> AsyncIterator[Storage]:
    storage = await open_storage(options)
    try:
        yield storage
    finally:
        await storage.close()


def _names(options: Options) -> Names:
    return Names.of(*dict.fromkeys((*_LOCAL, _host(options.bind_address))))


def _host(address: str) -> str:
    """What a client on this machine dials."""
    plain = {"0.0.0.0": "127.0.0.1", "::": "localhost"}.get(address, address)  # noqa: S104 - compared with, not bound to
    return f"[{plain}]" if ":" in plain else plain


def _install(
    engine: Engine, crds: Store, namespace_store: Store, authorizer: StandaloneAuthorizer, *, protect_definitions: bool
) -> None:
    admission = engine.admission
    protection = DefinitionProtection(engine.definitions.count_objects, everywhere=protect_definitions)
    own: list[tuple[str, list[Served]]] = [
        ("namespaces", [kinds.namespace_kind(namespace_store, admission)]),
        ("customresourcedefinitions", [definition_kind(crds, admission.then(protection))]),
        ("reviews", list(kinds.review_kinds(authorizer, admission, time.time))),
    ]
    engine.installer.install(own)
