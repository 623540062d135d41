"""What was read of a cluster about one installation of aggserver: its Service, and all that it depends on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggserver.apiextensions.api_service import Service
from aggserver.apiextensions.definition import Definition
from aggserver.commands.adopt.plan import HostAccess
from aggserver.commands.doctor.rights import MANIFESTS_NAMESPACE, Grant
from aggserver.meta.json_types import JSONMapping
from aggserver.options import Options

__all__ = ["InstallationFacts", "Probe", "condition", "labels", "name", "selects"]

# Helm's, on each object that a chart made.
_RELEASE = "meta.helm.sh/release-name"


@dataclass(frozen=True, slots=True)
class Probe:
    """What became of a request that kube-apiserver was asked to pass on. status: 0 if there was no answer, and text says why."""

    status: int
    text: str

    @property
    def is_answered(self) -> bool:
        return 200 <= self.status < 300

    def __str__(self) -> str:
        text = " ".join(self.text.split())[:300]
        return f"{self.status}: {text}" if self.status else text


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFacts:
    """What was read. Objects are as the API gives them; None if there is none.

    service: that of the installation; its port is the one that APIServices name. account: the name of the service account. now:
    seconds since 1970 by kube-apiserver's clock. kubernetes: its version.

    deployment, pods: what runs behind the Service; without a selector, the Deployment whose server has its name. events: of
    the pods. logs: by pod, the last lines of its container, or of the one before it. options: those of the Deployment's
    container, None if they are not known; options_problem: why the server refuses them.

    api_services: all of the cluster. probes: by APIService that leads to the Service, what /apis/GROUP/VERSION answers. direct:
    the same for /readyz?verbose by way of the Service; None if kube-apiserver does not pass that on, as for an ExternalName.
    ahead: by how many seconds the server's clock is ahead of kube-apiserver's, None if not known.

    authentication: the ConfigMap extension-apiserver-authentication. secret_name: of the Secret with the serving certificate, ''
    if there is none that is known. certificate_member: its key with the
    certificate. secret: that one.

    grants: the rights that the server needs. denied: those that the service account lacks. policy,
    binding: those of api-service-policy.yaml.

    definitions: what the server's folder has, as far as it is made of ConfigMaps; definition_problems: what of it can't be
    served. crds: the cluster's definitions, as `families.kept` leaves them. refused: those that match the selector and can't be
    served, with the reason. selector: of the definitions to adopt, None if there is no adoption.

    entries: the status of adoption by definition, None if there is no status. lease: the one for moves; lease_problem: what
    `holder.problem` says of it. task_leases: those of Apps whose holder has not renewed them. guard: the webhook configuration.

    unread: what could not be read, with the reason.
    """

    service: Service
    now: float
    account: str = "aggserver"
    kubernetes: str = "v1.36.0"
    has_namespace: bool = True
    has_account: bool = True
    service_object: JSONMapping | None = None
    slices: Sequence[JSONMapping] = ()
    deployment: JSONMapping | None = None
    pods: Sequence[JSONMapping] = ()
    events: Sequence[JSONMapping] = ()
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    network_policies: Sequence[JSONMapping] = ()
    options: Options | None = None
    options_problem: str = ""
    api_services: Sequence[JSONMapping] = ()
    probes: Mapping[str, Probe] = field(default_factory=dict)
    direct: Probe | None = None
    ahead: float | None = None
    authentication: JSONMapping | None = None
    secret_name: str = ""
    certificate_member: str = "tls.crt"
    secret: JSONMapping | None = None
    grants: Sequence[Grant] = ()
    denied: Sequence[HostAccess] = ()
    policy: JSONMapping | None = None
    binding: JSONMapping | None = None
    definitions: Sequence[Definition] = ()
    definition_problems: Sequence[str] = ()
    crds: Sequence[JSONMapping] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    selector: str | None = None
    entries: Mapping[str, JSONMapping] | None = None
    lease: JSONMapping | None = None
    lease_problem: str = ""
    task_leases: Sequence[JSONMapping] = ()
    guard: JSONMapping | None = None
    unread: Mapping[str, str] = field(default_factory=dict)

    def knows(self, *what: str) -> bool:
        """Whether these were read. A check that needs one that was not finds nothing."""
        return not any(each in self.unread for each in what)

    @property
    def where(self) -> str:
        return f"{self.service.namespace}/{self.service.name}"

    @property
    def is_only_named(self) -> bool:
        """Whether there is no installation, only APIServices that name its Service."""
        return self.service_object is None and self.deployment is None and self.knows("service", "deployment")

    @property
    def has_pods(self) -> bool:
        """Whether the Service leads to pods. One without a selector, or an ExternalName, leads to a server elsewhere."""
        spec = (self.service_object or {}).get("spec") or {}
        return bool(spec.get("selector")) and spec.get("type") != "ExternalName"

    def applied(self, *files: str) -> str:
        """The command that applies files of manifests/ again, or the chart, by which the installation was made."""
        namespace = self.service.namespace
        if self._release:
            return f"helm upgrade {self._release} manifests/helm --namespace {namespace} --reuse-values"
        if namespace == MANIFESTS_NAMESPACE:
            return "kubectl apply " + " ".join(f"--filename manifests/{file}" for file in files)
        changed = f"sed s/{MANIFESTS_NAMESPACE}/{namespace}/g"
        if len(files) == 1:
            return f"{changed} manifests/{files[0]} | kubectl apply --filename -"
        names = " ".join(f"manifests/{file}" for file in files)
        return f"for file in {names}; do {changed} $file | kubectl apply --filename -; done"

    def all_applied(self, *, adoption: bool = False) -> str:
        """The command that applies all of them again. adoption: with what adoption needs."""
        if self._release:
            return self.applied() + (" --set adoption.enabled=true" if adoption else "")
        before = "add `components: [adoption]` to manifests/kustomization.yaml, and: " if adoption else ""
        return f"{before}kubectl apply --kustomize manifests"

    @property
    def _release(self) -> str:
        """The name of the Helm release that made the installation, '' if none did."""
        for each in (self.deployment, self.service_object):
            if each is not None and (found := (each["metadata"].get("annotations") or {}).get(_RELEASE)):
                return str(found)
        return ""

    def ours(self) -> list[JSONMapping]:
        """The APIServices that lead to the Service, by name."""
        found = []
        for each in self.api_services:
            target = each["spec"].get("service") or {}
            if (target.get("namespace"), target.get("name")) == (self.service.namespace, self.service.name):
                found.append(each)
        return sorted(found, key=name)


def name(found: JSONMapping) -> str:
    return str(found["metadata"]["name"])


def labels(found: JSONMapping) -> Mapping[str, str]:
    return found["metadata"].get("labels") or {}


def condition(found: JSONMapping, kind: str) -> JSONMapping | None:
    """The condition of that type in the status of an object."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), None)


def selects(selector: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """Whether a selector of equal labels, which is not empty, matches labels."""
    return bool(selector) and selector.items() <= found.items()
