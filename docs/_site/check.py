"""Last step of the site's build: what it takes from elsewhere becomes its own, and what is wrong with it is told.

    python docs/_site/check.py mkdocs.yml

Zensical itself checks links from page to page. This adds what it does not look at: the navigation, links in generated
pages, and addresses that a page would load when it is opened.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from api_pages import signed_classes

__all__ = ["finish", "mistakes"]

_SHIM = "https://unpkg.com/iframe-worker/shim"
_OWN_SHIM = "assets/javascripts/iframe-worker.js"
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}

_UNSIGNED = re.compile(
    r'<div class="doc doc-object doc-class">\s*<h\d id="(?P<name>[^"]+)"'
    r'(?:(?!</h\d>).)*</h\d>(?!\s*<div class="doc-signature)',
    re.DOTALL,
)
"""Heading of a class without a signature after it."""
_DEFAULT = re.compile(r"= ?(?P<name>_?[A-Z][A-Z0-9_]+)\b")
_WIDEST = 120
"""Characters of a line of a signature; one of many parameters has a line for each."""
_OTHERS = {"PIPE"}
"""Constants of the standard library, which readers know by their names."""


class _Page(HTMLParser):
    """Anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "a" and (href := found.get("href")):
            self.links.append(href)
        elif (name := _LOADED.get(tag)) and (address := found.get(name)):
            self.loads.append(address)


def finish(site: Path) -> None:
    """Let every page load the shim for searches in files from the site itself."""
    shutil.copyfile(Path(__file__).parent / "assets" / "iframe-worker.js", site / _OWN_SHIM)
    for path in site.rglob("*.html"):
        up = "../" * (len(path.relative_to(site).parts) - 1)
        path.write_text(path.read_text().replace(_SHIM, up + _OWN_SHIM))


def mistakes(config: dict[str, Any], sources: Path, site: Path) -> Iterator[str]:
    """Iterate over what is wrong, a line each: pages without a place, places without a page, dead links, addresses that
    are loaded, and what a page of the reference shows as it stands in the source.
    """
    named = set(_named(config["nav"]))
    there = {path.relative_to(sources).as_posix() for path in sources.rglob("*.md")}
    yield from (f"the navigation names {name}, which is not there" for name in sorted(named - there))
    yield from (f"{name} is not in the navigation" for name in sorted(there - named))
    pages = {path.resolve(): _Page(path.read_text()) for path in site.rglob("*.html")}
    for path, page in sorted(pages.items()):
        name = path.relative_to(site.resolve())
        yield from (f"{name} loads {address}" for address in page.loads if re.match(r"(https?:)?//", address))
        if name.name == "404.html":  # its links are for the root of a server
            continue
        yield from (f"{name} links to {link}" for link in page.links + page.loads if not _leads(path, link, pages))
        yield from (f"{name} {words}" for words in _of_reference(path.read_text()))
    for path in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?((?:https?:)?//[^)]*)\)", path.read_text()):
            yield f"{path.relative_to(site)} loads {address}"


def _of_reference(text: str) -> Iterator[str]:
    """Iterate over what a page of the reference has left as it stands in a docstring or in the source."""
    if "Example::" in text or "<p>Example:" in text:
        yield "shows an example as text"
    signed = signed_classes()
    yield from (f"has {one} without a signature" for one in _UNSIGNED.findall(text) if one in signed)
    if "doc-object" in text:
        yield from (f"names {page} and does not lead there" for page in re.findall(r"\bdocs/[\w/\-]+\.md\b", text))
    for signature in re.findall(r'<div class="doc-signature.*?</div>', text, re.DOTALL):
        plain = unescape(re.sub(r"<[^>]*>", "", signature))
        yield from (
            f"shows the default {one}, and not its value" for one in _DEFAULT.findall(plain) if one not in _OTHERS
        )
        if max(map(len, plain.splitlines())) > _WIDEST:  # what is no Python is not wrapped
            yield f"has a signature wider than a page: {plain.strip()[:40]} ..."


def _named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for one in nav.values() if isinstance(nav, dict) else nav:
            yield from _named(one)


def _leads(page: Path, link: str, pages: dict[Path, _Page]) -> bool:
    if re.match(r"[a-z]+:|//", link):
        return True
    target, _, anchor = link.partition("#")
    path = (page.parent / unquote(target.partition("?")[0])).resolve() if target else page
    if path.is_dir():
        path /= "index.html"
    if path not in pages:
        return path.exists()
    return not anchor or anchor.startswith("__") or unquote(anchor) in pages[path].anchors


def _main(file: Path) -> int:
    config = yaml.safe_load(file.read_text())
    sources, site = file.parent / config["docs_dir"], file.parent / config["site_dir"]
    finish(site)
    found = list(mistakes(config, sources, site))
    for line in found:
        print(f"docs: {line}", file=sys.stderr)  # noqa: T201 - this is a command
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
