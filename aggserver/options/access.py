"""Who may do what: authentication and authorization."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH, DEV, DEV_USER
from aggserver.options.flag import option

__all__ = ["AUTHORIZATION_MODES", "AccessOptions"]

# Upstream's authorization modes, without ABAC and Webhook.
AUTHORIZATION_MODES = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC")


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default
@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """Fields of Options; see the help of each."""

    client_ca_file: Path | None = option(
        None,
        "client-ca-file",
        convert.path,
        flag.AUTHENTICATION,
        "CA bundle to verify client certificates with; the user is the CN, the groups are the Os (default: the cluster's; dev "
        "trusts its own CA besides)",
        metavar="FILE",
        commands=BOTH,
    )
    requestheader_client_ca_file: Path | None = option(
        None,
        "requestheader-client-ca-file",
        convert.path,
        flag.AUTHENTICATION,
        "CA bundle to verify the front proxy's client certificate with, before its headers are trusted (default: the cluster's)",
        metavar="FILE",
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        (),
        "requestheader-allowed-names",
        convert.texts,
        flag.AUTHENTICATION,
        "common names allowed in the front proxy's client certificate; any if empty",
        metavar="NAMES",
    )
    requestheader_username_headers: tuple[str, ...] = option(
        ("x-remote-user",),
        "requestheader-username-headers",
        convert.texts,
        flag.AUTHENTICATION,
        "request headers to take the user name from",
        metavar="NAMES",
    )
    requestheader_uid_headers: tuple[str, ...] = option(
        ("x-remote-uid",),
        "requestheader-uid-headers",
        convert.texts,
        flag.AUTHENTICATION,
        "request headers to take the UID from",
        metavar="NAMES",
    )
    requestheader_group_headers: tuple[str, ...] = option(
        ("x-remote-group",),
        "requestheader-group-headers",
        convert.texts,
        flag.AUTHENTICATION,
        "request headers to take groups from",
        metavar="NAMES",
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = option(
        ("x-remote-extra-",),
        "requestheader-extra-headers-prefix",
        convert.texts,
        flag.AUTHENTICATION,
        "prefixes of request headers to take the user's extra fields from",
        metavar="PREFIXES",
    )
    authentication_kubeconfig: Path | None = option(
        None,
        "authentication-kubeconfig",
        convert.path,
        flag.AUTHENTICATION,
        "kubeconfig of the cluster for TokenReviews and the extension-apiserver-authentication ConfigMap (default: --kubeconfig)",
        metavar="FILE",
    )
    authentication_skip_lookup: bool = option(
        False,
        "authentication-skip-lookup",
        convert.boolean,
        flag.AUTHENTICATION,
        "do not read the extension-apiserver-authentication ConfigMap; use the flags alone",
    )
    authentication_tolerate_lookup_failure: bool = option(
        False,
        "authentication-tolerate-lookup-failure",
        convert.boolean,
        flag.AUTHENTICATION,
        "start even if that ConfigMap can't be read; requests may then be treated as anonymous",
    )
    authentication_token_cache_seconds: float = option(
        10.0,
        "authentication-token-webhook-cache-ttl",
        convert.seconds,
        flag.AUTHENTICATION,
        "TTL of cached TokenReview results",
        metavar="DURATION",
    )
    anonymous_auth: bool = option(
        True,
        "anonymous-auth",
        convert.boolean,
        flag.AUTHENTICATION,
        "treat requests without credentials as user system:anonymous, instead of answering 401",
        commands=BOTH,
    )
    service_account_key_files: tuple[str, ...] = option(
        (),
        "service-account-key-file",
        convert.sources,
        flag.AUTHENTICATION,
        "public or private keys (RSA or ECDSA, PEM) to verify tokens of ServiceAccounts with; may be repeated",
        metavar="FILE",
        commands=DEV,
    )
    service_account_signing_key_file: Path | None = option(
        None,
        "service-account-signing-key-file",
        convert.path,
        flag.AUTHENTICATION,
        "private key to sign tokens of ServiceAccounts with (default: a key in the --data folder, made at its first use)",
        metavar="FILE",
        commands=DEV,
    )
    service_account_issuers: tuple[str, ...] = option(
        (),
        "service-account-issuer",
        convert.sources,
        flag.AUTHENTICATION,
        "issuer of tokens of ServiceAccounts; may be repeated: the first makes tokens, those of all are accepted (default: "
        "https://kubernetes.default.svc.cluster.local)",
        metavar="URL",
        commands=DEV,
    )
    api_audiences: tuple[str, ...] = option(
        (),
        "api-audiences",
        convert.texts,
        flag.AUTHENTICATION,
        "audiences of which a token must have one to be accepted, comma-separated (default: the issuers)",
        metavar="NAMES",
        commands=DEV,
    )
    service_account_max_token_expiration_seconds: float = option(
        0.0,
        "service-account-max-token-expiration",
        convert.seconds,
        flag.AUTHENTICATION,
        "how long tokens of ServiceAccounts hold at most, whatever is requested; 0 is no limit",
        metavar="DURATION",
        commands=DEV,
    )
    user: str = option(
        "", "user", convert.text, flag.AUTHENTICATION, "name of the user", metavar="NAME", commands=DEV_USER, positional=True
    )
    user_groups: tuple[str, ...] = option(
        (),
        "group",
        convert.texts,
        flag.AUTHENTICATION,
        "group of the user; may be repeated",
        metavar="NAME",
        commands=DEV_USER,
    )
    authorization_mode: tuple[str, ...] = option(
        ("Node", "RBAC"),
        "authorization-mode",
        convert.texts,
        flag.AUTHORIZATION,
        f"modes that are asked in order, comma-separated: {', '.join(AUTHORIZATION_MODES)}",
        metavar="MODES",
        commands=DEV,
    )
    authorization_kubeconfig: Path | None = option(
        None,
        "authorization-kubeconfig",
        convert.path,
        flag.AUTHORIZATION,
        "kubeconfig of the cluster for SubjectAccessReviews (default: --kubeconfig)",
        metavar="FILE",
    )
    authorization_always_allow_paths: tuple[str, ...] = option(
        ("/healthz", "/readyz", "/livez"),
        "authorization-always-allow-paths",
        convert.texts,
        flag.AUTHORIZATION,
        "paths that are allowed without a SubjectAccessReview; a trailing * matches any suffix",
        metavar="PATHS",
    )
    authorization_allow_cache_seconds: float = option(
        10.0,
        "authorization-webhook-cache-authorized-ttl",
        convert.seconds,
        flag.AUTHORIZATION,
        "TTL of cached allow decisions",
        metavar="DURATION",
    )
    authorization_deny_cache_seconds: float = option(
        10.0,
        "authorization-webhook-cache-unauthorized-ttl",
        convert.seconds,
        flag.AUTHORIZATION,
        "TTL of cached deny decisions",
        metavar="DURATION",
    )
