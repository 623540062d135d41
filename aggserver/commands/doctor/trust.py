"""Whether kube-apiserver and the server trust each other: certificates, caBundle, the ConfigMap, clocks, versions. Pure.

Source: the keys of the ConfigMap are those of k8s.io/apiserver pkg/server/options/authentication.go, v0.36.3.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Generator, Iterator, Sequence

from aggserver.certificates.inspection import SeenCertificate, in_bundle, is_signed_by
from aggserver.commands.doctor.finding import Finding, Severity, listed
from aggserver.commands.doctor.found import InstallationFacts, name
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.times import format_time

__all__ = ["checks"]

_CONFIG_MAP = "ConfigMap kube-system/extension-apiserver-authentication"
_READ_IT = "kubectl get configmap extension-apiserver-authentication --namespace kube-system --output yaml"
_FRONT_PROXY = (
    "start kube-apiserver with --requestheader-client-ca-file, --requestheader-username-headers=X-Remote-User, "
    "--requestheader-group-headers=X-Remote-Group, --requestheader-extra-headers-prefix=X-Remote-Extra-, "
    "--proxy-client-cert-file and --proxy-client-key-file, as kubeadm does"
)

# The oldest Kubernetes whose ValidatingAdmissionPolicies the manifests can use.
_OLDEST_MINOR = 30
_VERSION = re.compile(r"v?1\.(\d+)")

# The server renews its certificate when a third of its life is left, so that one with less than a sixth was forgotten.
_LITTLE_LEFT = 1 / 6

# Tokens, Leases and certificates bear less than this; a log is hard to read with more.
_MOST_SKEW_SECONDS = 30.0


def checks(facts: InstallationFacts) -> Iterator[Finding]:
    yield from _version(facts)
    yield from _clock(facts)
    if facts.knows("authentication"):
        yield from _config_map(facts)
    serving = yield from _serving(facts)
    yield from _bundles(facts, serving)


def _version(facts: InstallationFacts) -> Iterator[Finding]:
    found = _VERSION.match(facts.kubernetes)
    if found is not None and int(found[1]) < _OLDEST_MINOR:
        yield Finding(
            "kubernetes-version",
            Severity.ERROR,
            f"kube-apiserver {facts.kubernetes}",
            f"Kubernetes 1.{_OLDEST_MINOR} or newer is required",
            "before that, admissionregistration.k8s.io/v1 has no ValidatingAdmissionPolicies",
            "upgrade the cluster",
        )


def _clock(facts: InstallationFacts) -> Iterator[Finding]:
    if facts.ahead is not None and abs(facts.ahead) > _MOST_SKEW_SECONDS:
        word = "ahead of" if facts.ahead > 0 else "behind"
        yield Finding(
            "clock",
            Severity.WARNING,
            f"Service {facts.where}",
            f"the server's clock is {abs(facts.ahead):.0f} s {word} kube-apiserver's",
            "certificates and tokens count as expired, or as not valid yet, at another time there than here",
            "set the clocks of the nodes, as by: timedatectl set-ntp true",
        )


# --- the ConfigMap ---


def _config_map(facts: InstallationFacts) -> Iterator[Finding]:
    if facts.authentication is None:
        yield Finding(
            "authentication",
            Severity.ERROR,
            _CONFIG_MAP,
            "it does not exist",
            "kube-apiserver writes it; without it the server does not know whose requests are the aggregator's, and is not ready",
            "restart kube-apiserver: it writes the ConfigMap again",
        )
        return
    data = facts.authentication.get("data") or {}
    if not data.get("requestheader-client-ca-file"):
        yield Finding(
            "authentication-front-proxy",
            Severity.ERROR,
            _CONFIG_MAP,
            "it has no requestheader-client-ca-file",
            "kube-apiserver has no client certificate for the aggregation layer: the server can't tell who asks, and answers 401",
            _FRONT_PROXY,
        )
    else:
        yield from _list(data, "requestheader-username-headers", needed=True)
        yield from _list(data, "requestheader-allowed-names", needed=False)
    for key, severity in (("requestheader-client-ca-file", Severity.ERROR), ("client-ca-file", Severity.WARNING)):
        if not data.get(key):
            continue
        who = "of the aggregator" if key.startswith("request") else "of users with client certificates"
        try:
            certificates = in_bundle(str(data[key]).encode())
        except ValueError as error:
            why = f"requests {who} are not recognized"
            yield Finding("authentication-ca", severity, _CONFIG_MAP, f"{key} can't be read: {error}", why, _READ_IT)
            continue
        if trouble := _none_valid(certificates, facts.now):
            why = f"certificates {who} count as not valid"
            yield Finding("authentication-ca", severity, _CONFIG_MAP, f"{key}: {trouble}", why, "kubeadm certs check-expiration")


def _list(data: JSONMapping, key: str, *, needed: bool) -> Iterator[Finding]:
    try:
        found = json.loads(data.get(key) or "[]")
    except ValueError:
        found = None
    if isinstance(found, list) and all(isinstance(each, str) for each in found) and (found or not needed):
        return
    what = f"{key} is empty" if found == [] else f"{key} is no list of strings in JSON"
    why = "the server does not take the ConfigMap, and keeps what it knew before; a new one is not ready"
    yield Finding("authentication-front-proxy", Severity.ERROR, _CONFIG_MAP, what, why, _FRONT_PROXY)


def _none_valid(certificates: Sequence[SeenCertificate], now: float) -> str:
    """Why none of them is valid now; '' if one is. During a rotation a bundle also has old ones."""
    if any(each.start <= now < each.end for each in certificates):
        return ""
    last = max(certificates, key=lambda each: each.end)
    if now >= last.end:
        return f"{last.subject} has expired at {format_time(last.end)}"
    return f"{last.subject} is not valid before {format_time(last.start)}, and it is {format_time(now)} at kube-apiserver"


# --- the serving certificate ---


def _serving(facts: InstallationFacts) -> Generator[Finding, None, list[SeenCertificate]]:
    """Returns the certificate and its intermediates, [] if they are not known."""
    namespace, where = facts.service.namespace, f"Secret {facts.service.namespace}/{facts.secret_name}"
    if not facts.secret_name or not facts.knows("secret"):
        return []
    makes_it = facts.options is None or facts.options.tls_cert_file is None
    renew = f"kubectl delete secret {facts.secret_name} --namespace {namespace}" if makes_it else "certs/make-certs.sh"
    if facts.secret is None:
        if facts.options is not None:
            why = "the server makes it at its start" if makes_it else "the Deployment mounts it, so that no pod starts without it"
            mend = f"kubectl rollout restart deployment --namespace {namespace}" if makes_it else "certs/make-certs.sh"
            yield Finding("certificate-secret", Severity.ERROR, where, "it does not exist", why, mend)
        return []
    data = facts.secret.get("data") or {}
    try:
        chain = in_bundle(base64.b64decode(data.get(facts.certificate_member) or "", validate=True))
    except (ValueError, binascii.Error) as error:
        why = "the server has no certificate to answer TLS with"
        yield Finding("certificate", Severity.ERROR, where, f"its certificate can't be read: {error}", why, renew)
        return []
    leaf = chain[0]
    host = f"{facts.service.name}.{namespace}.svc"
    if trouble := _none_valid([leaf], facts.now):
        why = "kube-apiserver does not accept it; the server renews its own in time, and reads files again when they change"
        yield Finding("certificate-times", Severity.ERROR, where, trouble, why, renew)
    elif leaf.end - facts.now < (leaf.end - leaf.start) * _LITTLE_LEFT:
        why = "it was to be renewed long ago: the server does so when a third is left, and whoever made yours may have forgotten"
        yield Finding(
            "certificate-times", Severity.WARNING, where, f"the certificate expires at {format_time(leaf.end)}", why, renew
        )
    if not leaf.is_for(host):
        names = listed(leaf.names) or "no name"
        what = f"the certificate is for {names}, and not for {host}"
        yield Finding("certificate-names", Severity.ERROR, where, what, "kube-apiserver connects by that name", renew)
    return chain


def _bundles(facts: InstallationFacts, serving: Sequence[SeenCertificate]) -> Iterator[Finding]:
    """The caBundle of each APIService, and of the guard, against the serving certificate."""
    places = [(f"APIService {name(each)}", f"apiservice {name(each)}", each["spec"]) for each in facts.ours()]
    if facts.guard is not None:
        guard = f"ValidatingWebhookConfiguration {name(facts.guard)}"
        show = f"validatingwebhookconfiguration {name(facts.guard)}"
        places += [(guard, show, each["clientConfig"]) for each in (facts.guard.get("webhooks") or ())[:1]]
    for where, show, spec in places:
        if spec.get("insecureSkipTLSVerify"):
            continue
        mend = f"kubectl get {show} --show-managed-fields --output yaml"
        try:
            bundle = in_bundle(base64.b64decode(spec.get("caBundle") or "", validate=True))
        except (ValueError, binascii.Error):
            what = "its caBundle is not a certificate in PEM" if spec.get("caBundle") else "it has no caBundle"
            why = "kube-apiserver can't verify the server's certificate; the server writes it, unless somebody else does"
            yield Finding("ca-bundle", Severity.ERROR, where, what, why, mend)
            continue
        if trouble := _none_valid(bundle, facts.now):
            yield Finding(
                "ca-bundle", Severity.ERROR, where, f"its caBundle: {trouble}", "no certificate is verified by it", mend
            )
        elif serving and not is_signed_by(serving, bundle):
            yield Finding(
                "ca-bundle",
                Severity.ERROR,
                where,
                "its caBundle does not have the CA that signed the server's certificate",
                f"the certificate in Secret {facts.secret_name} is of another CA; the server writes its own into the caBundle "
                "while it runs, unless somebody else does",
                mend,
            )
