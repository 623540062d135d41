"""`aggserver serve`: behind a cluster's aggregation layer, with definitions from a folder, or adopted from the cluster.

The server listens at once, whatever state the cluster is in. It answers health checks, which say what it waits for, and is not
ready until it has the authentication ConfigMap, the rules of admission and its certificate. It goes on watching whatever it reads
from the cluster, so that changes take effect without a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aggserver
from aggserver.apiextensions.definition import Definition
from aggserver.apiextensions.files import FolderSource, Loaded
from aggserver.apiextensions.registration import Registrar, Service
from aggserver.apiextensions.stored_versions import FolderLedger, FolderMigrations
from aggserver.app.admission import AggregatedAdmission, Common
from aggserver.app.admission_configuration import read_identities
from aggserver.app.auditing import open_auditor
from aggserver.app.cluster_services import ClusterServices
from aggserver.app.engine import Engine, listen, new_environment, new_uids, open_webhooks
from aggserver.app.errors import StartError
from aggserver.app.flag_checks import FlagChecks
from aggserver.app.memory import give_back_memory
from aggserver.app.named_certificates import NamedCertificates
from aggserver.app.serving_certificate import ServingCertificate
from aggserver.app.storage import compaction, open_host_etcd, open_storage
from aggserver.app.tasks import Task, supervise
from aggserver.app.tracing_configuration import open_tracer
from aggserver.app.trust import overrides_from, trust_files
from aggserver.authentication.configmap import ConfigMapSource
from aggserver.authentication.delegating import AuthenticationConfig, Authenticator, TrustError
from aggserver.authentication.tokens import TokenReviewer
from aggserver.authorization.delegating import DelegatingAuthorizer
from aggserver.cluster import Cluster
from aggserver.cluster.client import ClusterClient, connect
from aggserver.cluster.configuration import SERVICE_ACCOUNT_FOLDER
from aggserver.cluster.figures import ClientFigures
from aggserver.cluster.lease import Lease, new_identity
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.loading import loading
from aggserver.endpoints.request import Filter
from aggserver.monitoring.process import cluster_metrics, tls_metrics
from aggserver.options import Options
from aggserver.schema.rules import RuleOptions
from aggserver.server.serving import Server
from aggserver.server.tls import FileWatcher, TLSConfig

if TYPE_CHECKING:
    from aggserver.app.adoption import Adoption
    from aggserver.app.python_apps import LoadedApps
    from aggserver.resources.serving import Elected

__all__ = ["DefinitionSources", "keep_registered", "run"]

log = logging.getLogger("aggserver")

_AGENT = f"aggserver/{aggserver.__version__}"


async def run(options: Options, apps: LoadedApps, on_server: Callable[[Server], None]) -> int:
    """Serves until the server is asked to stop. Returns the exit status.

    apps: resources in Python. on_server: called with the server, so that the caller can stop it. Raises AggserverError if it
    can't start or go on.
    """
    async with contextlib.AsyncExitStack() as stack:
        tracer = stack.enter_context(open_tracer(options.tracing_config_file, aggserver.__version__, new_uids()))
        clusters = _Clusters(stack)
        cluster = await clusters.get(options.kubeconfig)
        storage = await open_storage(options)
        stack.push_async_callback(storage.close)
        rule_options = RuleOptions(options.rules_see_labels, options.rules_budget)
        webhooks = await stack.enter_async_context(open_webhooks(options, ClusterServices(cluster)))
        environment = new_environment(storage, options, webhooks)
        authorizer = DelegatingAuthorizer(
            await clusters.get(options.authorization_kubeconfig or options.kubeconfig),
            open_paths=options.authorization_always_allow_paths,
            allow_seconds=options.authorization_allow_cache_seconds,
            deny_seconds=options.authorization_deny_cache_seconds,
        )
        identities = read_identities(options.admission_control_config_file)
        admission = AggregatedAdmission(Common(options, authorizer, webhooks, identities, environment.new_uid), cluster)
        engine = Engine(environment, admission.chain, rule_options)
        engine.tracer = tracer
        engine.checks.add("admission", admission.healthy, livez=False, warning=admission.warning)
        service = _service(options)
        flags = FlagChecks(cluster, service, str(options.kubeconfig or ""), options.kube_apiservers, _AGENT)
        engine.checks.add("flags", lambda: None, livez=False, warning=flags.warning)
        app_tasks: Sequence[Task] = ()
        if apps:
            from aggserver.app.python_apps import serve_apps

            app_tasks = serve_apps(apps, engine, environment, _elected(cluster, service), cluster, options)
            if options.definitions is None and options.adopt is None and (waiting := engine.definitions.waiting_hooks()):
                texts = [f"{place}: hooks on {name} would never be called" for name, place in waiting]
                raise StartError("\n".join([*texts, "this server serves no definitions: --definitions names a folder of them"]))

        tls = TLSConfig(min_version=options.tls_min_version, cipher_suites=options.tls_cipher_suites)
        tls_metrics(engine.metrics.registry, lambda: tls.handshake_failures)
        cluster_metrics(engine.metrics.registry, clusters.figures.items)
        registrar = Registrar(cluster, service)
        certificate = ServingCertificate(options, cluster, service, tls)
        engine.checks.add("serving-certificate", certificate.healthy, livez=False)
        named = NamedCertificates(options.sni_pairs, tls)
        sources = DefinitionSources(engine, folder=options.definitions is not None, adoption=options.adopt is not None)
        adoption: Adoption | None = None
        before_authentication: dict[str, Filter] = {}
        if options.adopt is not None:
            from aggserver.adoption.switch.refusals import refusing
            from aggserver.app.adoption import Adoption
            from aggserver.app.installation import installation_id

            before_authentication["guard"] = refusing()
            host_etcd = await open_host_etcd(options)
            if host_etcd is not None:
                stack.push_async_callback(host_etcd.close)
            adoption = Adoption(
                options,
                cluster,
                engine,
                storage,
                service,
                lambda: certificate.ca_bundle,
                host_etcd,
                await installation_id(storage),
                sources.adopted,
                sources.has_own,
            )
            certificate.on_change(adoption.trust)
            engine.checks.add("adoption", adoption.healthy, livez=False)
        keep_registered(engine.installer, certificate, registrar, sources)

        authenticator, trust_tasks = await _authentication(options, cluster, clusters, engine, tls)
        auditor = await stack.enter_async_context(open_auditor(options, engine.metrics))
        chain = engine.chain(
            authenticator,
            authorizer,
            options,
            before_authorization={
                "loading": loading(sources.missing, engine.installer.serves, adoption.unreadable)
                if adoption
                else loading(sources.missing)
            },
            before_authentication=before_authentication,
            auditor=auditor,
        )
        server = Server(
            engine.application(chain),
            [listen(options)],
            tls,
            on_stopping=engine.checks.begin_shutdown,
            on_shutdown=engine.end_watches,
            shutdown_delay=options.shutdown_delay_seconds,
            grace=options.shutdown_grace_seconds,
            at_once=engine.lane(chain, options, auditor),
            max_streams=options.http2_max_streams,
        )
        engine.pages.counts["connections"] = lambda: server.connections
        on_server(server)
        tasks: list[Task] = [
            ("watch of the cluster's admission rules", admission.run),
            ("renewal of the serving certificate", certificate.run),
            ("registration of APIServices", registrar.run),
            ("look at what flags name", flags.run),
            *compaction(storage, options),
            give_back_memory(),
            *trust_tasks,
            *named.tasks(),
            *app_tasks,
        ]
        if options.definitions is not None:
            migrations = FolderMigrations(engine.migrator(FolderLedger(storage))) if options.migrate_storage else None
            tasks.append(_follow_folder(options.definitions, engine, sources, rule_options, migrations))
            if migrations is not None:
                tasks.append(("migration of stored objects", migrations.run))
        if adoption is not None:
            tasks.append(("adoption of the cluster's definitions", adoption.run))
        async with supervise(*tasks):
            log.info(
                "aggserver listens on https://%s:%d for %s.%s.svc beside %s; /readyz?verbose says what it waits for",
                *(options.bind_address, server.port, service.name, service.namespace, cluster.server),
            )
            await server.run()
    return 0


class _Clusters:
    """The clients of clusters, one for each kubeconfig that flags name."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack
        self._known: dict[Path | None, ClusterClient] = {}
        self.figures: dict[str, ClientFigures] = {}  # by host and port, which several clients may ask

    async def get(self, kubeconfig: Path | None) -> Cluster:
        if kubeconfig not in self._known:
            client = await connect(str(kubeconfig or ""), _AGENT)
            self._stack.push_async_callback(client.close)
            client.figures = self.figures.setdefault(urlsplit(client.server).netloc, client.figures)
            self._known[kubeconfig] = client
        return self._known[kubeconfig]


def _elected(cluster: Cluster, service: Service) -> Elected:
    """Runs work while this server holds a Lease, for the tasks of an App."""
    identity = new_identity()

    async def run(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        lease = Lease(cluster, service.namespace, _lease_name(service.name, name), identity, does=f"runs the tasks of {name}")
        await lease.run(work)

    return run


def _lease_name(service: str, app: str) -> str:
    """Of a Service and an App: the name of a module may have what the name of an object can't."""
    return f"{service}-app-{app}".lower().replace("_", "-")


def _service(options: Options) -> Service:
    namespace = options.service_namespace
    if not namespace:
        with contextlib.suppress(OSError):
            namespace = (SERVICE_ACCOUNT_FOLDER / "namespace").read_text().strip()
    return Service(namespace or "default", options.service_name, options.service_port)


def keep_registered(
    installer: Installer, certificate: ServingCertificate, registrar: Registrar, sources: DefinitionSources
) -> None:
    """Passes the served versions and the CA bundle to the registrar, whenever either changes."""

    def want() -> None:
        # Not before the definitions were read: otherwise each restart would delete all APIServices for a moment, or with an App
        # all but those of its resources.
        if certificate.ca_bundle and installer.generation and sources.folder_is_read:
            versions = [version for group in installer.groups() for version in group.versions]
            # The APIServices of adopted group-versions are kept by the server that moves families.
            own = [each for each in versions if not installer.adopted_by(each.group, each.version)]
            registrar.want([(each.group, each.version) for each in own], certificate.ca_bundle)

    installer.on_change(want)
    certificate.on_change(want)


async def _authentication(
    options: Options, cluster: Cluster, clusters: _Clusters, engine: Engine, tls: TLSConfig
) -> tuple[Authenticator, list[Task]]:
    """The authenticator, and the tasks that keep its configuration up to date."""
    asked = await clusters.get(options.authentication_kubeconfig or options.kubeconfig)
    authenticator = Authenticator(
        AuthenticationConfig(),
        tokens=TokenReviewer(asked, keep_seconds=options.authentication_token_cache_seconds),
        on_change=lambda bundle: _trust(tls, bundle),
        anonymous=options.anonymous_auth,
        waiting=lambda: source.healthy(),
    )
    tls.knows_all_cas = lambda: source.healthy() is None
    files = trust_files(options)
    source: ConfigMapSource

    def read_again(contents: dict[str, bytes]) -> None:
        try:
            source.override(overrides_from(options, contents))
        except TrustError as error:
            source.keep(error)

    watcher = FileWatcher(files, read_again)
    source = ConfigMapSource(asked, authenticator.replace, overrides_from(options, watcher.read()))
    engine.checks.add("authentication", source.ready, livez=False, warning=source.warning)
    tasks: list[Task] = [("watch of the authentication ConfigMap", source.run)]
    if files:
        tasks.append(("watch of the CA files", lambda: watcher.run(asyncio.sleep)))
    return authenticator, tasks


def _trust(tls: TLSConfig, bundle: bytes) -> None:
    tls.update(client_ca_pem=bundle)


class DefinitionSources:
    """Serves the definitions of the folder, if there is one, together with the adopted ones.

    Nothing is served before the folder was read: else the APIServices of its definitions would be deleted for a moment.
    """

    def __init__(self, engine: Engine, *, folder: bool, adoption: bool) -> None:
        self._definitions = engine.definitions
        self._refused: set[str] = set()
        self._told: set[str] = set()  # names in hooks that no definition has
        self._folder: Mapping[str, Definition] = {}
        self._adopted: Mapping[str, Definition] = {}
        self._awaited = adoption
        self._read = asyncio.Event()
        if not folder:
            self._read.set()

    def missing(self) -> str | None:
        """Which definitions were not read yet, so that not all are served; None if all were."""
        if not self._read.is_set():
            return "the folder of definitions has not been read yet"
        return "the records of adopted definitions have not been read yet" if self._awaited else None

    @property
    def folder_is_read(self) -> bool:
        """Whether the definitions of the folder are served; True if there is none."""
        return self._read.is_set()

    def has_own(self, name: str) -> bool:
        """Whether the definition with that name is served from the folder."""
        return name in self._folder and name not in self._adopted

    def in_folder(self, definitions: Mapping[str, Definition]) -> None:
        self._folder = definitions
        self._read.set()
        self._serve()

    async def adopted(self, definitions: Mapping[str, Definition]) -> None:
        """Serve exactly these adopted definitions, by name. Returns when they are served."""
        await self._read.wait()
        for name in self._folder.keys() & (definitions.keys() - self._adopted.keys()):
            log.warning("definitions: %s is adopted from the cluster, so that the one in the folder is not served", name)
        self._adopted = definitions
        self._awaited = False
        self._serve()

    def served(self, definition: Definition) -> bool:
        """Whether the definition may be served; one with a name of a resource of an App is not, and that is logged once."""
        conflict = self._definitions.claims.conflict_of(definition)
        if conflict and definition.name not in self._refused:
            log.error("definitions: %s is not served: %s", definition.name, conflict)
            self._refused.add(definition.name)
        elif not conflict:
            self._refused.discard(definition.name)
        return not conflict

    def _serve(self) -> None:
        wanted = {**self._folder, **self._adopted}
        self._definitions.set_all({name: definition for name, definition in wanted.items() if self.served(definition)})
        if self.missing() is not None:
            return
        for name, place in self._definitions.waiting_hooks():
            if name not in self._told:
                log.error("%s: hooks on %s are never called: this server serves no such definition", place, name)
                self._told.add(name)


def _follow_folder(
    folder: Path, engine: Engine, sources: DefinitionSources, rule_options: RuleOptions, migrations: FolderMigrations | None
) -> Task:
    read = asyncio.Event()

    def on_change(loaded: Loaded) -> None:
        read.set()
        for problem in loaded.new_problems:
            log.error("definitions: %s", problem)
        sources.in_folder({definition.name: definition for definition in loaded.definitions})
        served = [definition for definition in loaded.definitions if sources.served(definition)]
        if migrations is not None:
            migrations.sync(served)
        log.info("definitions: serving %d from %s", len(served), folder)

    engine.checks.add("definitions", lambda: None if read.is_set() else "the folder has not been read yet", livez=False)
    source = FolderSource(folder, on_change, rule_options)
    return "watch of the definitions folder", lambda: source.run(asyncio.sleep)
