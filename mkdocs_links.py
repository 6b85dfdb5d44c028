"""For the site: what a page links to outside of docs/ is named there, since it is not part of the site."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """`[rows](../results/paper.json)` -> rows (`results/paper.json`); links between pages of decisions/ stay."""
    if page.file.src_uri.startswith("decisions/"):
        return markdown
    return OUTSIDE.sub(lambda link: f"{link.group(1)} (`{link.group(2)}`)", markdown)
