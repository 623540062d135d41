"""Whether the server's service account may do what it must, and may not do more: RBAC and the admission policy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aggserver.commands.adopt.plan import HostAccess
from aggserver.commands.doctor.finding import Finding, Severity
from aggserver.commands.doctor.found import InstallationFacts, name
from aggserver.meta.json_types import JSONMapping

__all__ = ["checks", "is_about"]

_POLICY = ("api-service-policy.yaml", "api-service-policy-binding.yaml")

# How the policy lets an APIService be kube-apiserver's own again: part of manifests/adoption/api-service-policy.yaml.
_FOR_ADOPTION = "!has(state.spec.service)"


def checks(facts: InstallationFacts) -> Iterator[Finding]:
    denied = set(facts.denied)
    for grant in facts.grants:
        if lacking := [each for each in grant.rights if each in denied]:
            yield Finding(
                "rights",
                Severity.ERROR,
                f"ServiceAccount {facts.service.namespace}/{facts.account}",
                f"it lacks the permission to {_together(lacking)}",
                f"manifests/{grant.files[0]} gives it: {grant.without}",
                grant.mend or facts.applied(*grant.files),
            )
    if facts.knows("policy"):
        yield from _policy(facts)


def _together(rights: Sequence[HostAccess]) -> str:
    """Rights in words, with the verbs on one resource together."""
    verbs: dict[HostAccess, list[str]] = {}
    for each in rights:
        verbs.setdefault(each._replace(verb=""), []).append(each.verb)
    return "; ".join(f"{', '.join(several)}{each}" for each, several in verbs.items())


def _policy(facts: InstallationFacts) -> Iterator[Finding]:
    namespace = facts.service.namespace
    if facts.policy is None or facts.binding is None:
        kind = "ValidatingAdmissionPolicy" if facts.policy is None else "ValidatingAdmissionPolicyBinding"
        yield Finding(
            "api-service-policy",
            Severity.WARNING,
            f"{kind} of ServiceAccount {namespace}/{facts.account}",
            "it does not exist",
            "RBAC can't restrict the account to APIServices of its own Service: with its token any API of the cluster can be "
            "taken over",
            facts.applied(*_POLICY),
        )
        return
    where = f"ValidatingAdmissionPolicy {name(facts.policy)}"
    texts = [str(each.get("expression")) for each in facts.policy["spec"].get("validations") or ()]
    services = [text for text in texts if "spec.service.name" in text]
    if services and not all(f'"{facts.service.name}"' in text and f'"{namespace}"' in text for text in services):
        yield Finding(
            "api-service-policy",
            Severity.ERROR,
            where,
            f"it lets the server write APIServices of another Service than {facts.where} only",
            "the server can't register what it serves: its log says `denied request`",
            facts.applied(*_POLICY),
        )
    elif services and facts.selector is not None and not all(_FOR_ADOPTION in text for text in services):
        yield Finding(
            "api-service-policy",
            Severity.ERROR,
            where,
            "it does not let the server write APIServices that are kube-apiserver's own, as those of definitions to adopt are",
            "it is the policy without adoption; every move goes back with its words",
            facts.all_applied(adoption=True),
        )


def is_about(policy: JSONMapping, account: str) -> bool:
    """Whether the policy is about this user: its matchConditions name it."""
    conditions = policy["spec"].get("matchConditions") or ()
    return any(f'"{account}"' in str(each.get("expression")) for each in conditions)
