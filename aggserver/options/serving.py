"""Where the server listens, its certificates, its definitions and Apps, and how it stops."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH, DEV, DEV_USER, MANIFESTS, SERVE
from aggserver.options.flag import option

__all__ = ["ServingOptions"]

TLS_VERSIONS = ("VersionTLS12", "VersionTLS13")


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default
@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """Fields of Options; see the help of each."""

    secure_port: int = option(
        443,
        "secure-port",
        convert.port,
        flag.SERVING,
        "port for HTTPS; 0 picks a free port",
        metavar="PORT",
        commands=BOTH,
        dev=6443,
    )
    bind_address: str = option(
        "0.0.0.0",  # noqa: S104  in a pod, clients connect to the pod's address
        "bind-address",
        convert.address,
        flag.SERVING,
        "IP address to listen on; :: listens on all IPv4 and IPv6 addresses",
        metavar="IP",
        commands=BOTH,
        dev="127.0.0.1",
    )
    definitions: Path | None = option(
        None,
        "definitions",
        convert.path,
        flag.SERVING,
        "folder of CustomResourceDefinition manifests; changes in it are applied while the server runs",
        metavar="DIR",
        commands=SERVE | {"storage migrate"},
    )
    filenames: tuple[str, ...] = option(
        (),
        "filename",
        convert.sources,
        flag.SERVING,
        "manifests to create at start: a file, a folder, an http(s) URL, or - for standard input; may be repeated",
        metavar="FILE",
        commands=DEV,
        short="-f",
    )
    apps: tuple[str, ...] = option(
        (),
        "app",
        convert.texts,
        flag.SERVING,
        "resources that are written in Python: MODULE:NAME of an App; may be repeated",
        metavar="MODULE:NAME",
        commands=BOTH | MANIFESTS,
    )
    image: str = option(
        "",
        "image",
        convert.text,
        flag.SERVING,
        "image that has the App, such as registry/name:1",
        metavar="IMAGE",
        commands=MANIFESTS,
    )
    namespace: str = option(
        "",
        "namespace",
        convert.text,
        flag.SERVING,
        "namespace that the server runs in (default: the name of the first module, with -system)",
        metavar="NAMESPACE",
        commands=MANIFESTS,
    )
    reload: bool = option(
        False,
        "reload",
        convert.boolean,
        flag.SERVING,
        "start a new process after each change of the files of --app; while they have errors, the old one goes on",
        commands=DEV,
    )
    web_port: int | None = option(
        None,
        "web-port",
        convert.port,
        flag.SERVING,
        "port for the web applications that an App mounts, with plain HTTP; 0 picks a free port",
        metavar="PORT",
        commands=BOTH,
    )
    kubeconfig_to_write: Path | None = option(
        None,
        "kubeconfig",
        convert.path,
        flag.SERVING,
        "kubeconfig file to add a context for this server to, as the current context; other contexts in it are kept",
        metavar="FILE",
        commands=DEV | DEV_USER,
    )
    resolve_services: convert.Services = option(
        (),
        "resolve-service",
        convert.services,
        flag.SERVING,
        "address of a service that webhooks name; may be repeated; serve finds the services of its cluster without it",
        metavar="NAMESPACE/NAME=HOST:PORT",
        commands=BOTH | {"storage migrate"},
    )
    exit_with_parent: bool = option(
        False, "exit-with-parent", convert.boolean, flag.SERVING, "stop when the parent process exits", commands=DEV
    )
    shutdown_delay_seconds: float = option(
        0.0,
        "shutdown-delay-duration",
        convert.seconds,
        flag.SERVING,
        "time between failing /readyz and refusing connections, so that load balancers notice",
        metavar="DURATION",
    )
    shutdown_grace_seconds: float = option(
        60.0,
        "shutdown-grace-period",
        convert.seconds,
        flag.SERVING,
        "time that requests in flight get to finish before the server exits",
        metavar="DURATION",
        commands=BOTH,
        dev=5.0,
    )
    server_url: str = option(
        "",
        "server",
        convert.text,
        flag.SERVING,
        "URL of the server (default: that in the kubeconfig of its --data folder or, before its first start, "
        "https://127.0.0.1:6443)",
        metavar="URL",
        commands=DEV_USER,
    )
    tls_cert_file: Path | None = option(
        None,
        "tls-cert-file",
        convert.path,
        flag.TLS,
        "serving certificate, followed by its intermediates (default: a CA and a certificate are generated and renewed)",
        metavar="FILE",
        commands=BOTH,
    )
    tls_private_key_file: Path | None = option(
        None, "tls-private-key-file", convert.path, flag.TLS, "private key of --tls-cert-file", metavar="FILE", commands=BOTH
    )
    ca_bundle_file: Path | None = option(
        None,
        "ca-bundle-file",
        convert.path,
        flag.TLS,
        "CA bundle for clients to verify --tls-cert-file with (default: that certificate itself), in the APIServices or, by "
        "dev, in the kubeconfig",
        metavar="FILE",
        commands=BOTH,
    )
    cert_dir: Path | None = option(
        None,
        "cert-dir",
        convert.path,
        flag.TLS,
        "folder for generated certificates (default: a Secret in the Service's namespace)",
        metavar="DIR",
    )
    tls_min_version: str = option(
        "VersionTLS12",
        "tls-min-version",
        convert.one_of(*TLS_VERSIONS),
        flag.TLS,
        f"minimum TLS version: {' or '.join(TLS_VERSIONS)}",
        metavar="VERSION",
        commands=BOTH,
    )
    tls_cipher_suites: tuple[str, ...] = option(
        (),
        "tls-cipher-suites",
        convert.texts,
        flag.TLS,
        "IANA names of the TLS 1.2 cipher suites to allow, comma-separated",
        metavar="NAMES",
        commands=BOTH,
    )
    sni_pairs: tuple[convert.NamedPair, ...] = option(
        (),
        "tls-sni-cert-key",
        convert.named_pair,
        flag.TLS,
        "certificate and key for clients that ask for one of the names, or of those in the certificate; *.example.com is a name, "
        "too; may be repeated",
        metavar="CERT,KEY[:NAMES]",
        commands=BOTH,
    )
    permit_port_sharing: bool = option(
        False,
        "permit-port-sharing",
        convert.boolean,
        flag.SERVING,
        "let several processes listen on the same port (SO_REUSEPORT); the system divides connections among them",
        commands=BOTH,
    )
    http2_max_streams: int = option(
        0,
        "http2-max-streams-per-connection",
        convert.integer,
        flag.SERVING,
        "maximum of concurrent requests on a connection of HTTP/2; 0 is 1,000",
        metavar="N",
        commands=BOTH,
    )
    goaway_chance: float = option(
        0.0,
        "goaway-chance",
        convert.share,
        flag.SERVING,
        "share of requests after whose response a connection of HTTP/2 is ended (GOAWAY), so that clients spread over several "
        "servers; 0.02 at most",
        metavar="SHARE",
        commands=BOTH,
    )
    cors_allowed_origins: tuple[str, ...] = option(
        (),
        "cors-allowed-origins",
        convert.members,
        flag.SERVING,
        "origins whose pages may read responses: regular expressions, comma-separated, each pinned to the start and end of the "
        "host, such as //example\\.com(:|$)",
        metavar="PATTERNS",
        commands=BOTH,
    )
    hsts_directives: tuple[str, ...] = option(
        (),
        "strict-transport-security-directives",
        convert.members,
        flag.SERVING,
        "directives of the header Strict-Transport-Security, comma-separated: max-age=SECONDS, includeSubDomains, preload",
        metavar="DIRECTIVES",
        commands=BOTH,
    )
