"""Admission plugins, and their configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH
from aggserver.options.flag import option

__all__ = ["ADMISSION_PLUGINS", "AdmissionOptions"]

# Admission plugins in the order in which they are asked, and whether they are enabled by default. Those of built-in kinds have an
# effect with `aggserver dev` only.
ADMISSION_PLUGINS = {
    "NamespaceLifecycle": True,
    "LimitRanger": True,
    "ServiceAccount": True,
    "NodeRestriction": True,
    "TaintNodesByCondition": True,
    "PodSecurity": True,
    "Priority": True,
    "DefaultTolerationSeconds": True,
    "DefaultStorageClass": True,
    "StorageObjectInUseProtection": True,
    "OwnerReferencesPermissionEnforcement": False,
    "PersistentVolumeClaimResize": True,
    "RuntimeClass": True,
    "CertificateApproval": True,
    "CertificateSigning": True,
    "CertificateSubjectRestriction": True,
    "DefaultIngressClass": True,
    "PodTopologyLabels": True,
    "PodResizeValidator": True,
    "MutatingAdmissionPolicy": True,
    "MutatingAdmissionWebhook": True,
    "ValidatingAdmissionPolicy": True,
    "ValidatingAdmissionWebhook": True,
    "ResourceQuota": True,
}

_DEFAULT_PLUGINS = ", ".join(name for name, enabled in ADMISSION_PLUGINS.items() if enabled)


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default
@dataclass(frozen=True, kw_only=True)
class AdmissionOptions:
    """Fields of Options; see the help of each."""

    enable_admission_plugins: tuple[str, ...] = option(
        (),
        "enable-admission-plugins",
        convert.texts,
        flag.ADMISSION,
        f"plugins to enable besides the defaults ({_DEFAULT_PLUGINS}), comma-separated: {', '.join(ADMISSION_PLUGINS)}",
        metavar="NAMES",
        commands=BOTH,
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        "disable-admission-plugins",
        convert.texts,
        flag.ADMISSION,
        "plugins to disable although they are enabled by default, comma-separated",
        metavar="NAMES",
        commands=BOTH,
    )
    admission_control_config_file: Path | None = option(
        None,
        "admission-control-config-file",
        convert.path,
        flag.ADMISSION,
        "AdmissionConfiguration, with a kubeconfig that has the users as which the server calls webhooks",
        metavar="FILE",
        commands=BOTH,
    )
