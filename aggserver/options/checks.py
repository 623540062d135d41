"""Checks of options that concern more than one of them, or whose values are known names. No I/O."""

from __future__ import annotations

import re
from pathlib import Path

from aggserver.errors import AggserverError
from aggserver.meta.golang import quote
from aggserver.meta.names import dns1035_label, dns1123_label
from aggserver.options.access import AUTHORIZATION_MODES
from aggserver.options.admission import ADMISSION_PLUGINS
from aggserver.options.commands import ASK
from aggserver.options.controllers import CONTROLLERS
from aggserver.options.table import Options

__all__ = ["OptionsError", "check"]


class OptionsError(AggserverError):
    """An invalid option. The text is one line that names the option and what is wrong."""

    exit_status = 2


def check(options: Options) -> None:
    """Check rules that involve several options. Raises OptionsError."""
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        raise OptionsError("--tls-cert-file and --tls-private-key-file go together")
    if options.ca_bundle_file is not None and options.tls_cert_file is None:
        raise OptionsError("--ca-bundle-file has no meaning without --tls-cert-file")
    if options.authentication_skip_lookup and options.authentication_tolerate_lookup_failure:
        raise OptionsError("--authentication-tolerate-lookup-failure has no meaning with --authentication-skip-lookup")
    if options.storage == "etcd" and not options.etcd_servers:
        raise OptionsError("--storage etcd requires --etcd-servers")
    if options.storage != "etcd" and options.etcd_servers:
        raise OptionsError("--etcd-servers has no meaning without --storage etcd")
    if (options.etcd_certfile is None) != (options.etcd_keyfile is None):
        raise OptionsError("--etcd-certfile and --etcd-keyfile go together")
    if (options.host_etcd_certfile is None) != (options.host_etcd_keyfile is None):
        raise OptionsError("--host-etcd-certfile and --host-etcd-keyfile go together")
    if options.host_etcd_cafile is not None and not options.host_etcd_servers:
        raise OptionsError("--host-etcd-cafile has no meaning without --host-etcd-servers")
    if options.host_etcd_certfile is not None and not options.host_etcd_servers:
        raise OptionsError("--host-etcd-certfile has no meaning without --host-etcd-servers")
    if options.host_etcd_servers and options.command == "serve" and options.adopt is None:
        raise OptionsError("--host-etcd-servers has no meaning without --adopt")
    if options.host_etcd_servers and options.command == "adopt release" and options.from_backup is None:
        raise OptionsError("--host-etcd-servers has no meaning without --from-backup: the server has its own")
    if options.discard and options.from_backup is not None:
        raise OptionsError("--discard has no meaning with --from-backup: there is no server that could delete anything")
    if options.request_timeout_seconds <= 0:
        raise OptionsError("--request-timeout: must be more than 0")
    if options.requestheader_client_ca_file and not options.requestheader_username_headers:
        raise OptionsError("--requestheader-username-headers: at least one is required with --requestheader-client-ca-file")
    _check_names(options)
    _check_serving(options)
    _check_plugins(options)
    _check_audit(options)
    _check_modes(options.authorization_mode)
    _check_issuers(options)
    _check_controllers(options)
    _check_pods(options)
    _check_reload(options)
    if options.command == "dev user":
        _check_user(options)
    if options.command == "cel":
        _check_cel(options)
    if options.command == "convert":
        _check_convert(options)
    if options.command == "manifests" and not (options.apps and options.image):
        raise OptionsError("manifests: --app and --image are required")
    if options.command in ASK and options.all_definitions == bool(options.definition_names):
        raise OptionsError(f"{options.command}: NAME or --all is required, and not both")


# A name of a header: RFC 9110, 5.6.2.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _check_names(options: Options) -> None:
    """Check values that would be taken, and could never work. Raises OptionsError."""
    for flag, name, errors in (
        ("service-name", options.service_name, dns1035_label),
        ("service-namespace", options.service_namespace, dns1123_label),
    ):
        if name and (why := errors(name)):
            raise OptionsError(f"--{flag}: {quote(name)}: {why[0]}")
    if not options.service_port:
        raise OptionsError("--service-port: must be between 1 and 65535")
    if options.permit_port_sharing and not options.secure_port:
        raise OptionsError("--permit-port-sharing has no meaning with --secure-port 0: each server would take a port of its own")
    if options.web_port is not None and not options.apps:
        raise OptionsError("--web-port has no meaning without --app")
    for path in options.authorization_always_allow_paths:
        if "*" in path[:-1]:
            raise OptionsError(f"--authorization-always-allow-paths: only trailing * allowed in {quote(path.removeprefix('/'))}")
    for flag, headers in (
        ("requestheader-username-headers", options.requestheader_username_headers),
        ("requestheader-uid-headers", options.requestheader_uid_headers),
        ("requestheader-group-headers", options.requestheader_group_headers),
        ("requestheader-extra-headers-prefix", options.requestheader_extra_headers_prefix),
    ):
        for header in headers:
            if not _HEADER.fullmatch(header):
                raise OptionsError(f"--{flag}: {quote(header)} can't be a header's name")


_CORS_HELP = (
    "List of allowed origins for CORS, comma separated. An allowed origin can be a regular expression to support subdomain "
    "matching. If this list is empty CORS will not be enabled. Please ensure each expression matches the entire hostname by "
    "anchoring to the start with '^' or including the '//' prefix, and by anchoring to the end with '$' or including the ':' "
    "port separator suffix. Examples of valid expressions are '//example\\.com(:|$)' and '^https://example\\.com(:|$)'"
)
_HSTS_TEXT = (
    "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see "
    "https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
)


def _check_serving(options: Options) -> None:
    """Check the flags of connections and browsers. Raises OptionsError with upstream's texts.

    Source: k8s.io/apiserver pkg/server/options/server_run_options.go, v0.36.3.
    """
    if not 0 <= options.goaway_chance <= 0.02:
        raise OptionsError("--goaway-chance can not be less than 0 or greater than 0.02")
    for directive in options.hsts_directives:
        if not directive.strip():
            raise OptionsError("empty value in strict-transport-security-directives")
        parts = directive.split("=")
        if directive not in ("includeSubDomains", "preload") and (len(parts) != 2 or parts[0] != "max-age"):
            raise OptionsError(_HSTS_TEXT)
        if not directive.isprintable():
            raise OptionsError(_HSTS_TEXT)
    for pattern in options.cors_allowed_origins:
        if not pattern:
            raise OptionsError(f"empty value in --cors-allowed-origins, help: {_CORS_HELP}")
        if why := _wrong_origin(pattern):
            raise OptionsError(f"--cors-allowed-origins has an invalid regular expression: {why}, help: {_CORS_HELP}")


def _wrong_origin(pattern: str) -> str:
    """Why a pattern can't be used; empty if it can. One that pins nothing would let foreign hosts in (CVE-2022-1996)."""
    from aggserver.meta import regexp  # not at every start: it loads RE2

    try:
        regexp.matcher(pattern)
    except regexp.PatternError as error:
        return str(error)
    is_pinned = any(mark in pattern for mark in ("^", "//")) and any(mark in pattern for mark in ("$", ":"))
    return "" if is_pinned else "regular expression does not pin to start/end of host in the origin header"


def _check_plugins(options: Options) -> None:
    """Check the admission plugins. Raises OptionsError with upstream's texts."""
    enabled, disabled = options.enable_admission_plugins, options.disable_admission_plugins
    for flag, names in (("enable-admission-plugins", enabled), ("disable-admission-plugins", disabled)):
        for name in names:
            if name not in ADMISSION_PLUGINS:
                raise OptionsError(f"{flag} plugin {quote(name)} is unknown; known are {', '.join(ADMISSION_PLUGINS)}")
    if both := sorted(set(enabled) & set(disabled)):
        raise OptionsError(f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped")


def _check_audit(options: Options) -> None:
    """Check the backends of the audit that are used. Raises OptionsError with upstream's texts."""
    for plugin, used in (("log", options.audit_log_path), ("webhook", options.audit_webhook_config_file)):
        if not used:
            continue

        def value(name: str, of: str = plugin) -> float:
            found: float = getattr(options, f"audit_{of}_{name}")
            return found

        sizes = [("buffer size", value("batch_buffer_size")), ("max batch size", value("batch_max_size"))]
        if value("batch_throttle_enable"):
            sizes += [("throttle QPS", value("batch_throttle_qps")), ("throttle burst", value("batch_throttle_burst"))]
        for name, size in sizes if getattr(options, f"audit_{plugin}_mode") == "batch" else ():
            if size <= 0:
                raise OptionsError(f"invalid audit batch {plugin} {name} {size:g}, must be a positive number")
        batch, event = value("truncate_max_batch_size"), value("truncate_max_event_size")
        if event <= 0:
            raise OptionsError(f"invalid audit truncate {plugin} max event size {event:g}, must be a positive number")
        if batch < event:
            why = f"must be greater than max event size ({event:d})"
            raise OptionsError(f"invalid audit truncate {plugin} max batch size {batch:d}, {why}")


def _check_modes(modes: tuple[str, ...]) -> None:
    """Check the authorization modes. Raises OptionsError with upstream's texts."""
    if not modes:
        raise OptionsError("at least one authorization-mode must be passed")
    for mode in modes:
        if mode not in AUTHORIZATION_MODES:
            known = ", ".join(AUTHORIZATION_MODES)
            raise OptionsError(f"authorization-mode {quote(mode)} is not a valid mode; known are {known}")
    if len(set(modes)) < len(modes):
        listed = " ".join(map(quote, modes))
        raise OptionsError(f"authorization-mode [{listed}] has mode specified more than once")


def _check_issuers(options: Options) -> None:
    """Check the issuers of service accounts' tokens. Raises OptionsError with upstream's texts."""
    issuers = options.service_account_issuers
    if "" in issuers:
        raise OptionsError("service-account-issuer should not be an empty string")
    if repeated := next((issuer for issuer in issuers if issuers.count(issuer) > 1), None):
        raise OptionsError(f"service-account-issuer {quote(repeated)} is already specified")
    longest = options.service_account_max_token_expiration_seconds
    if longest and not 3600 <= longest <= 1 << 32:
        raise OptionsError("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")


def _check_controllers(options: Options) -> None:
    """Check the names of controllers. Raises OptionsError with upstream's text."""
    known = {*CONTROLLERS, *CONTROLLERS.values(), "*"}
    for name in options.controllers:
        if name.removeprefix("-") not in known:
            raise OptionsError(f"--controllers: {quote(name)} is not in the list of known controllers: {', '.join(CONTROLLERS)}")


def _check_pods(options: Options) -> None:
    if options.pods != "keep" and options.kinds == "none":
        raise OptionsError(f"--pods {options.pods} has no meaning with --kinds none")
    if options.job_seconds and options.pods != "run":
        raise OptionsError("--job-duration has no meaning without --pods run")


def _check_reload(options: Options) -> None:
    if not options.reload:
        return
    if not options.apps:
        raise OptionsError("--reload has no meaning without --app")
    if options.run:
        raise OptionsError("--reload has no meaning with -- COMMAND, for which the server runs once")
    if "-" in options.filenames:
        raise OptionsError("--reload: -f - can't be read again")


def _check_user(options: Options) -> None:
    if not options.user:
        raise OptionsError("NAME: must not be empty")
    if options.kubeconfig_to_write is None:
        raise OptionsError("dev user: --kubeconfig FILE is required: the file to write")
    if options.data == ":memory:":
        where = '--data "$(dirname "$KUBECONFIG")"'
        raise OptionsError(f"dev user: a server with --data :memory: has its CA in the folder of its kubeconfig: use {where}")
    if options.server_url and not re.match(r"https?://[^/]", options.server_url):
        raise OptionsError("--server: must be a URL, such as https://127.0.0.1:6443")


def _check_cel(options: Options) -> None:
    if not options.expression and options.definition_file is None:
        raise OptionsError("cel: an expression or --definition is required")
    if options.definition_file is None and (options.definition_version or options.at != "."):
        raise OptionsError("--version and --at have no meaning without --definition")
    if not options.expression and options.at != ".":
        raise OptionsError("--at has no meaning without an expression")
    if options.old_object_file is not None and options.object_file is None:
        raise OptionsError("--old-object has no meaning without --object")
    if [options.definition_file, options.object_file, options.old_object_file].count(Path("-")) > 1:
        raise OptionsError("-: standard input can be used for one file only")


def _check_convert(options: Options) -> None:
    if options.definition_file is None:
        raise OptionsError("convert: --definition is required")
    if options.check:
        if options.to or options.objects_file is not None:
            raise OptionsError("--check checks the definition alone, without --to and OBJECTS")
    elif not options.to or options.objects_file is None:
        raise OptionsError("convert: --to and OBJECTS are required, or --check")
    if options.definition_file == options.objects_file == Path("-"):
        raise OptionsError("-: standard input can be used for one file only")
