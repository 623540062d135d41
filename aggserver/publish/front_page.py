"""The front page for browsers: the server's resources, with commands to try next; and the page for users who may not see it.

All text is escaped; the page loads nothing and has no scripts, which `POLICY` makes the browser enforce. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from aggserver.publish.discovery import APIGroup, APIGroupVersion, APIResource

__all__ = ["POLICY", "page", "refusal"]

POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top }
code, pre { font: 13px/1.5 ui-monospace, monospace }
pre { padding: .7rem 1rem; background: #8882; overflow-x: auto }
"""

_COLUMNS = ("Kind", "Resource", "Short names", "Scope", "Subresources")


def page(groups: Sequence[APIGroup], version: str, user: str) -> bytes:
    """The front page as HTML. groups: as discovery has them. version: the server's version. user: the name of the user."""
    versions = [version for group in groups for version in group.versions]
    body = [
        f"<h1>aggserver {escape(version)}</h1>",
        f"<p>You are <code>{escape(user)}</code>. This is what is served now:</p>",
        *(line for each in sorted(versions, key=_is_built_in) for line in _table(each)),
        "<h2>Next</h2>",
        f"<pre>{escape(_commands(versions))}</pre>",
        f"<p>{_links(['/apis', '/openapi/v3', '/openapi/v2', '/version', '/readyz?verbose', '/metrics'])}</p>",
    ]
    return _document("\n".join(body))


def refusal(user: str) -> bytes:
    """The page for users without permission. It does not reveal any resources."""
    body = f"""<h1>aggserver</h1>
<p>This is a Kubernetes API server. It knows you as <code>{escape(user)}</code>, who may not see what it serves. By itself a
browser shows it no client certificate. Its kubeconfig has one, and kubectl shows that in the place of the browser:</p>
<pre>export KUBECONFIG=...   # as the server printed it when it started
kubectl proxy</pre>
<p>Then open <a href="http://127.0.0.1:8001/">http://127.0.0.1:8001/</a>.</p>"""
    return _document(body)


def _document(body: str) -> bytes:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>aggserver</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'.encode()
    )


def _is_built_in(version: APIGroupVersion) -> bool:
    """Whether the group is one that every Kubernetes server has; these come last on the page."""
    return not version.group or version.group.endswith(".k8s.io")


def _table(version: APIGroupVersion) -> Iterator[str]:
    path = f"/apis/{version.group_version}" if version.group else f"/api/{version.version}"
    yield f"<h2>{_link(path, version.group_version)}</h2>"
    yield f"<table><tr>{''.join(f'<th>{name}</th>' for name in _COLUMNS)}</tr>"
    for resource in version.resources:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(resource, path))}</tr>"
    yield "</table>"


def _cells(resource: APIResource, path: str) -> Iterable[str]:
    info = resource.info
    name = escape(info.resource)
    return (
        escape(info.kind),
        _link(f"{path}/{info.resource}", info.resource) if "list" in resource.verbs else name,
        escape(", ".join(resource.short_names)),
        "namespaced" if info.namespaced else "cluster",
        escape(", ".join(each.name for each in resource.subresources)),
    )


def _commands(versions: Sequence[APIGroupVersion]) -> str:
    lines = ["kubectl api-resources"]
    mine = [resource for version in versions if not _is_built_in(version) for resource in version.resources]
    if mine:
        info = mine[0].info
        lines += [f"kubectl explain {info.resource}", f"kubectl get {info.resource}{' -A' if info.namespaced else ''}"]
    else:
        lines.append("kubectl apply -f crd.yaml   # a CustomResourceDefinition: its resource is served at once")
    return "\n".join(lines)


def _links(paths: Iterable[str]) -> str:
    return " · ".join(_link(path, path) for path in paths)


def _link(path: str, text: str) -> str:
    return f'<a href="{escape(path)}">{escape(text)}</a>'
