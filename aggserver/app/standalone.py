"""`aggserver dev`: a server without a cluster.

It serves definitions and namespaces itself, makes its own CA, authenticates clients by certificates of that CA, and writes a
kubeconfig for an administrator. Everything is kept in one folder for the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aggserver
from aggserver import disk
from aggserver.admissionregistration.served import registration_kinds, registration_stores
from aggserver.apiextensions.controller import DefinitionController
from aggserver.apiextensions.kind import definition_kind
from aggserver.apiextensions.protection import DefinitionProtection
from aggserver.apiextensions.stored_versions import StatusLedger, StatusMigrations
from aggserver.apiextensions.strategy import DefinitionStrategy
from aggserver.apiextensions.v1beta1 import StoredDefinitions, to_v1
from aggserver.app.access import Access
from aggserver.app.admission import Common, OwnLimits, StandaloneAdmission
from aggserver.app.admission_configuration import read_identities
from aggserver.app.auditing import open_auditor
from aggserver.app.controllers import controllers
from aggserver.app.credentials import Credentials
from aggserver.app.engine import Engine, listen, new_environment, new_uids, open_webhooks
from aggserver.app.memory import give_back_memory
from aggserver.app.named_certificates import NamedCertificates
from aggserver.app.processes import run_command, until_orphaned
from aggserver.app.rare_controllers import rare_controllers
from aggserver.app.service_accounts import ServiceAccounts
from aggserver.app.storage import IN_MEMORY, compaction, data_folder, open_storage
from aggserver.app.tasks import Task, supervise
from aggserver.app.tracing_configuration import open_tracer
from aggserver.certificates.issuing import SubjectNames, requested_user
from aggserver.controllers.policy_status import PolicyStatusController
from aggserver.endpoints import front_page
from aggserver.endpoints.served import Served
from aggserver.kinds import namespaces
from aggserver.kinds.catalog import GROUPS
from aggserver.kinds.kubelets import Kubelets
from aggserver.kinds.served import Kinds, NamespaceLabels
from aggserver.meta.json_types import JSONObject
from aggserver.monitoring.process import tls_metrics
from aggserver.options import Options
from aggserver.registry.store import Store
from aggserver.schema.rules import RuleOptions
from aggserver.server.serving import Server
from aggserver.server.tls import TLSConfig
from aggserver.standalone import kubeconfig, manifests, openid, resources, seed
from aggserver.standalone.param_permissions import ParamPermissions
from aggserver.standalone.sources import own_kinds
from aggserver.standalone.token_reviews import TokenReviews
from aggserver.storage.interface import Storage

if TYPE_CHECKING:
    from aggserver.app.python_apps import LoadedApps

__all__ = ["run"]

log = logging.getLogger("aggserver")

_LOCAL = ("localhost", "127.0.0.1", "::1")


def run(
    options: Options,
    apps: LoadedApps,
    say: Callable[[str], None],
    on_server: Callable[[Server], None],
    listener: socket.socket | None = None,
) -> Coroutine[Any, Any, int]:
    """Serves until the server is asked to stop, or the command that the options name has ended. Returns the exit status.

    apps: resources in Python. say: prints a line for the person who started the server. on_server: called with the server, so
    that the caller can stop it. listener: the socket to serve on, if not one by the options.
    Raises AggserverError if it can't start or go on.
    """
    parent = os.getppid()
    if options.kubeconfig_to_write is not None:
        kubeconfig.read(options.kubeconfig_to_write)  # raises before anything is created
    # Read before there is an event loop, which would keep Ctrl-C from interrupting a download, or reading from a terminal.
    objects = [(origin, to_v1(obj)) for origin, obj in manifests.read(options.filenames)]
    return _run(options, apps, objects, parent, say, on_server, listener)


async def _run(
    options: Options,
    apps: LoadedApps,
    objects: Sequence[tuple[str, JSONObject]],
    parent: int,
    say: Callable[[str], None],
    on_server: Callable[[Server], None],
    given: socket.socket | None,
) -> int:
    async with contextlib.AsyncExitStack() as stack:
        tracer = stack.enter_context(open_tracer(options.tracing_config_file, aggserver.__version__, new_uids()))
        # Bind the port first: if it is in use, no folder is left behind.
        listener = stack.enter_context(contextlib.closing(given or listen(options)))
        folder = await stack.enter_async_context(_folder(options.data))
        storage = await stack.enter_async_context(_storage(options))
        tls = TLSConfig(min_version=options.tls_min_version, cipher_suites=options.tls_cipher_suites)
        accounts = ServiceAccounts(options, folder, time.time, new_uids())
        credentials = Credentials(folder, _names(options), tls, time.time, options, accounts)
        await credentials.start()
        named = NamedCertificates(options.sni_pairs, tls)

        webhooks = await stack.enter_async_context(open_webhooks(options))
        environment = new_environment(storage, options, webhooks)
        rule_options = RuleOptions(options.rules_see_labels, options.rules_budget)
        namespace_store = environment.own_store(namespaces.NamespaceStrategy(), read_fields=namespaces.read_fields)
        crds = environment.own_store(DefinitionStrategy(rule_options), StoredDefinitions())
        registrations = registration_stores(environment)

        def built_in_store(group: str, resource: str) -> Store:
            assert built_in is not None
            return built_in.store(group, resource)

        access = Access(options, built_in_store)
        identities = read_identities(options.admission_control_config_file)
        common = Common(options, access.authorizer, webhooks, identities, environment.new_uid)
        limits = OwnLimits(storage) if options.kinds == "all" else None
        stored_namespaces = namespaces.StoredNamespaces(namespace_store)
        admission = StandaloneAdmission(common, registrations, stored_namespaces, limits, access.plugins)
        engine = Engine(environment, admission.chain, rule_options)
        engine.tracer = tracer
        tls_metrics(engine.metrics.registry, lambda: tls.handshake_failures)
        below = {("", "serviceaccounts", "token"): accounts.requests}
        built_in = None
        if options.kinds == "all":
            ips = options.service_cluster_ip_range
            built_in = Kinds(
                environment,
                engine.admission,
                below,
                cluster_ips=ips,
                port=lambda: server.port,
                plugins=common.enabled(),
                namespaces=stored_namespaces,
                kubelets=Kubelets(access.authorizer, requested_user),
            )
        if built_in is not None:
            accounts.look_in(partial(built_in.store, ""))
        _install(
            engine,
            crds,
            namespace_store,
            registrations,
            built_in,
            access,
            protect_definitions=options.protect_definitions,
            pod_security="PodSecurity" in common.enabled(),
        )
        reviews = TokenReviews(accounts.tokens, time.time)
        engine.installer.install([("token reviews", [reviews.served(engine.admission)])])

        app_tasks: Sequence[Task] = ()
        if apps:
            from aggserver.app.python_apps import serve_apps

            app_tasks = serve_apps(apps, engine, environment, options=options)
            for name, place in engine.definitions.waiting_hooks():
                log.info("%s: hooks on %s wait until a definition of that name is created", place, name)

        migrations = _migrations(engine, crds) if options.migrate_storage else None
        definition_controller = DefinitionController(
            crds, engine.definitions, time.time, migrations=migrations, is_built_in=engine.installer.built_in
        )
        policy_controller = PolicyStatusController(registrations["validatingadmissionpolicies"], engine.installer)

        async def stop_with_parent() -> None:
            await until_orphaned(parent)
            server.request_stop()

        ready = asyncio.Event()

        async def remove_ended() -> None:
            await ready.wait()
            assert built_in is not None
            from aggserver.controllers.pods.ended import remove_ended_pods

            await remove_ended_pods(storage, built_in.store("", "pods"))

        async def publish_endpoints() -> None:
            await ready.wait()
            assert built_in is not None
            from aggserver.controllers.server_endpoints import advertised, publish

            if address := advertised(options.bind_address):
                await publish(built_in.store, address, server.port)

        async def follow_flow_control() -> None:
            assert built_in is not None
            if engine.flow_control is not None:
                from aggserver.controllers.flow_control import FlowControlController

                await FlowControlController(engine.flow_control, storage, built_in, environment.new_uid, time.time).run()

        rare = {}
        if built_in is not None and limits is not None:
            rare = rare_controllers(storage, built_in, engine.installer, accounts, credentials, limits)
        background = supervise(
            ("controller of definitions", definition_controller.run),
            ("watch of the rules of admission", admission.run),
            ("controller of the status of policies", policy_controller.run),
            *app_tasks,
            *access.tasks,
            *credentials.tasks(),
            *named.tasks(),
            *controllers(options, engine, storage, namespace_store, lambda: credentials.ca_bundle, ready, rare),
            *compaction(storage, options),
            *([("migration of stored objects", migrations.run)] if migrations is not None else []),
            *([("removal of ended Pods", remove_ended)] if built_in is not None else []),
            *([("endpoints of the server", publish_endpoints)] if built_in is not None else []),
            *([("controller of flow control", follow_flow_control)] if built_in is not None else []),
            *([("watch of the parent process", stop_with_parent)] if options.exit_with_parent else []),
            give_back_memory(),
        )

        def end_watches() -> None:
            background.cancel()  # the controllers watch, too, and would start new watches
            admission.stop()
            engine.end_watches()
            for store in (crds, namespace_store, *registrations.values()):
                store.end_watches()
            if built_in is not None:
                built_in.end_watches()

        browsers = front_page.for_browsers(engine.installer, access.authorizer, aggserver.__version__)
        filters = {"front_page": browsers, **access.filters}
        auditor = await stack.enter_async_context(open_auditor(options, engine.metrics))
        chain = engine.chain(credentials.authenticator, access.authorizer, options, filters, auditor=auditor)
        if (discovery := openid.for_issuer(accounts.issuers[0], accounts.keys, lambda: credentials.url)) is not None:
            chain["openid_discovery"] = discovery
        server = Server(
            engine.application(chain),
            [listener],
            tls,
            on_stopping=engine.checks.begin_shutdown,
            on_shutdown=end_watches,
            grace=options.shutdown_grace_seconds,
            at_once=engine.lane(chain, options, auditor),
            max_streams=options.http2_max_streams,
        )
        engine.pages.counts["connections"] = lambda: server.connections
        on_server(server)
        async with background:
            await namespaces.ensure(namespace_store, *(namespaces.SYSTEM if built_in is not None else ("default",)))
            await definition_controller.caught_up()
            await admission.known()
            await seed.plant(objects, engine.installer, definition_controller.settled, admission.of_files())
            return await _serve(options, server, credentials, say, ready)


async def _serve(
    options: Options, server: Server, credentials: Credentials, say: Callable[[str], None], ready: asyncio.Event
) -> int:
    """Runs the server, and the command if there is one. Returns the exit status, which is the command's.

    ready: set when the server is ready for clients, after its first line was printed if it prints one.
    """
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.run())
        await server.listening.wait()
        url = f"https://{_host(options.bind_address)}:{server.port}"
        credentials.publish(url)
        if not options.run:
            say(_first_words(options, url, credentials.kubeconfig))
            ready.set()
            return 0
        variables = {"KUBECONFIG": str(credentials.kubeconfig.resolve())}
        command = tasks.create_task(run_command(options.run, variables))
        ready.set()
        await asyncio.wait((serving, command), return_when=asyncio.FIRST_COMPLETED)
        if not command.done():  # the server was stopped first
            command.cancel()
            return 1
        server.request_stop()
        return command.result()


def _first_words(options: Options, url: str, own_kubeconfig: Path) -> str:
    kubeconfig = (options.kubeconfig_to_write or own_kubeconfig).resolve()
    data = ",".join(options.etcd_servers) if options.storage == "etcd" else options.data
    next_step = f"export KUBECONFIG={shlex.quote(str(kubeconfig))}; kubectl api-resources"
    return f"aggserver serves {url} (data: {shlex.quote(data)}). Next: {next_step}"


@contextlib.asynccontextmanager
async def _folder(data: str) -> AsyncIterator[Path]:
    """The folder of certificates and kubeconfig: the data folder, or a temporary one for a server that keeps nothing."""
    if data == IN_MEMORY:
        with contextlib.ExitStack() as stack:
            with disk.file_errors():
                temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="aggserver-"))
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


def _names(options: Options) -> SubjectNames:
    return SubjectNames.of(*dict.fromkeys((*_LOCAL, _host(options.bind_address))))


def _host(address: str) -> str:
    """The host that a client on this machine connects to."""
    plain = {"0.0.0.0": "127.0.0.1", "::": "localhost"}.get(address, address)  # noqa: S104 - compared with, not bound to
    return f"[{plain}]" if ":" in plain else plain


def _migrations(engine: Engine, crds: Store) -> StatusMigrations:
    ledger = StatusLedger(crds, engine.definitions.storage_versions, time.time)
    return StatusMigrations(engine.migrator(ledger), ledger)


def _install(
    engine: Engine,
    crds: Store,
    namespace_store: Store,
    registrations: Mapping[str, Store],
    built_in: Kinds | None,
    access: Access,
    *,
    protect_definitions: bool,
    pod_security: bool,
) -> None:
    namespace_admission = engine.admission
    if built_in is not None and pod_security:
        namespace_admission = namespace_admission.then(NamespaceLabels(partial(built_in.store, "", "pods")))
    protection = DefinitionProtection(engine.definitions.count_objects, everywhere=protect_definitions)
    params = ParamPermissions(access.authorizer, partial(own_kinds, engine.installer), registrations)
    own: list[Served] = [
        resources.namespace_kind(namespace_store, namespace_admission),
        definition_kind(crds, engine.admission.then(protection)),
        *registration_kinds(registrations, engine.admission.then(params)),
        *resources.review_kinds(access.reviewer, access.reviewer, engine.admission, time.time),
        *(built_in.served() if built_in is not None else ()),
    ]
    own.sort(key=lambda served: (GROUPS.index(served.info.group), served.info.resource))  # the order of discovery
    engine.installer.install([("own kinds", own)])
