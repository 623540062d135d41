"""Links of the documentation's pages to files outside of docs/, for mkdocs, which loads this file as a hook.

Pages are read in the repository, too, where such links lead to the file. On the site they lead to the repository that
`AGGSERVER_REPOSITORY` names, and are plain text without one. A link to a file that is not there is left as it is: mkdocs warns of
it, which ends a strict build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

__all__ = ["on_page_markdown", "rewritten"]

REPOSITORY = Path(__file__).parents[2]

# A link that leads upwards; the text has no brackets but those of code.
_LINK = re.compile(r"\[([^\[\]]*)\]\((\.\./[^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The hook's entrance."""
    return rewritten(markdown, page.file.src_uri, config.repo_url or "")


def rewritten(markdown: str, page: str, repository: str, root: Path = REPOSITORY) -> str:
    """The text of a page whose path below docs/ is given."""

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith(("../", "docs/")) or not (root / path).exists():
            return match[0]
        kind = "tree" if (root / path).is_dir() else "blob"
        return f"[{text}]({repository.rstrip('/')}/{kind}/main/{path}{anchor})" if repository else text

    return _LINK.sub(link, markdown)
