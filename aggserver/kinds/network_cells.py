"""The cells of Services, endpoints and ingresses in tables.

Pure. Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, v1.36.3.
"""

from __future__ import annotations

from aggserver.kinds.cells import LISTED, listed
from aggserver.meta.json_types import JSONMapping

__all__ = [
    "endpoints",
    "external_addresses",
    "hosts",
    "load_balancer",
    "parameters",
    "parent",
    "service_ports",
    "slice_endpoints",
    "slice_ports",
]


def _spec(obj: JSONMapping) -> JSONMapping:
    return obj.get("spec") or {}


def _status(obj: JSONMapping) -> JSONMapping:
    return obj.get("status") or {}


def endpoints(obj: JSONMapping) -> str:
    subsets = obj.get("subsets") or ()
    if not subsets:
        return "<none>"
    found: list[str] = []
    for subset in subsets:
        for port in subset.get("ports") or (None,):
            addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
            found += addresses if port is None else [_host_port(host, port.get("port", 0)) for host in addresses]
    return listed(found)


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parent(obj: JSONMapping) -> str:
    """What an IPAddress belongs to."""
    reference = _spec(obj).get("parentRef")
    if reference is None:
        return "<none>"
    group, resource = reference.get("group"), reference.get("resource", "")
    parts = [f"{resource}.{group}".lower() if group else resource.lower(), reference.get("namespace"), reference.get("name", "")]
    return "/".join(part for part in parts if part)


def slice_ports(obj: JSONMapping) -> str:
    ports = [str(port["port"]) if "port" in port else port.get("name", "*") for port in obj.get("ports") or ()]
    return listed(ports) or "<unset>"


def slice_endpoints(obj: JSONMapping) -> str:
    return listed([address for each in obj.get("endpoints") or () for address in each.get("addresses") or ()]) or "<unset>"


def load_balancer(obj: JSONMapping) -> str:
    ingress = (_status(obj).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""}))


def external_addresses(service: JSONMapping) -> str:
    spec = _spec(service)
    kind, given = spec.get("type"), ",".join(spec.get("externalIPs") or ())
    if kind in ("ClusterIP", "NodePort"):
        return given or "<none>"
    if kind == "LoadBalancer":
        return ",".join(filter(None, (load_balancer(service), given))) or "<pending>"
    return spec.get("externalName", "") if kind == "ExternalName" else "<unknown>"


def service_ports(service: JSONMapping) -> str:
    texts = []
    for each in _spec(service).get("ports") or ():
        node_port = f":{each['nodePort']}" if each.get("nodePort") else ""
        texts.append(f"{each.get('port', 0)}{node_port}/{each.get('protocol', '')}")
    return ",".join(texts) or "<none>"


def hosts(ingress: JSONMapping) -> str:
    rules = _spec(ingress).get("rules") or ()
    found: list[str] = []
    for rule in rules:
        # A rule without a host counts, too, once enough hosts are listed.
        if len(found) == LISTED:
            return f"{','.join(found)} + {len(rules) - LISTED} more..."
        if rule.get("host"):
            found.append(rule["host"])
    return ",".join(found) or "*"


def parameters(ingress_class: JSONMapping) -> str:
    given = _spec(ingress_class).get("parameters")
    if given is None:
        return "<none>"
    group = given.get("apiGroup")
    return f"{given.get('kind', '')}{'' if group is None else f'.{group}'}/{given.get('name', '')}"
