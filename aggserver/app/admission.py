"""The admission chain of a server: the enabled plugins in upstream's order, made of what a mode has.

Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go (AllOrderedPlugins), v1.36.3.
"""

from __future__ import annotations

from aggserver.admission.chain import Chain
from aggserver.admission.cluster_namespaces import ClusterNamespaces
from aggserver.admission.cluster_sources import ClusterSources, Readiness
from aggserver.admission.namespace_lifecycle import NamespaceLifecycle, Namespaces
from aggserver.admission.resource_quota import ResourceQuota
from aggserver.cluster import Cluster
from aggserver.options import ADMISSION_PLUGINS, Options

__all__ = ["aggregated", "enabled_plugins", "standalone"]


def enabled_plugins(options: Options) -> frozenset[str]:
    """Names of plugins."""
    defaults = {name for name, enabled in ADMISSION_PLUGINS.items() if enabled}
    return frozenset((defaults | {*options.enable_admission_plugins}) - {*options.disable_admission_plugins})


def aggregated(options: Options, cluster: Cluster, sources: ClusterSources) -> Chain:
    """With the rules of a cluster. sources: made for the enabled plugins."""
    plugins = enabled_plugins(options)
    namespaces = ClusterNamespaces(cluster, sources.namespaces)
    return Chain(
        [Readiness(sources), *([NamespaceLifecycle(namespaces)] if "NamespaceLifecycle" in plugins else [])],
        [ResourceQuota(cluster, sources.quotas)] if "ResourceQuota" in plugins else [],
    )


def standalone(options: Options, namespaces: Namespaces) -> Chain:
    """Without a cluster. There are no ResourceQuotas."""
    return Chain([NamespaceLifecycle(namespaces)] if "NamespaceLifecycle" in enabled_plugins(options) else [])
