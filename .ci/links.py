"""Check the links within built pages:  python .ci/links.py doc/_build/html

Every relative ``href`` and ``src`` must lead to a file, and its anchor to an ``id`` of that page.
Links to other sites are not followed. Prints a line a broken link, and fails if there is one.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page and the anchors that it has."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)


def pages_of(root: Path) -> list[Path]:
    """All pages but the templates of the theme."""
    return [p for p in sorted(root.rglob("*.html")) if "_static" not in p.relative_to(root).parts]


def broken_links(root: Path) -> list[str]:
    pages = {path: Page(path) for path in pages_of(root)}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            what = f"{path.relative_to(root)}: {link}"
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                broken.append(f"{what}: no such file")
            elif parts.fragment and target.suffix == ".html":
                anchors = pages[target].anchors if target in pages else set()
                if unquote(parts.fragment) not in anchors:
                    broken.append(f"{what}: no such anchor")
    return broken


def main() -> int:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    root = Path(sys.argv[1]).resolve()
    if not (root / "index.html").is_file():
        raise SystemExit(f"{root}: no built pages")
    broken = broken_links(root)
    print("\n".join(broken) or f"{len(pages_of(root))} pages: no broken link")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
