"""Docstrings as Markdown: an extension of griffe that fences code of examples, and leads to pages that are named.

Signatures that the source text alone does not show are in `signatures.py`.
"""

import re
import sys
import textwrap
from pathlib import Path

from griffe import Attribute, ExprCall, Extension, Function, Module, Object

sys.path.insert(0, str(Path(__file__).parent))  # griffe loads this file by its path

from signatures import complete_classes, complete_pools, show_defaults

__all__ = ["Examples", "fence_code", "link_pages"]

_DOCS = Path(__file__).resolve().parents[1]
_PAGE = re.compile(r"(?P<quote>`?)\bdocs/(?P<name>[\w/\-]+)\.md(?P=quote)")

_CODE = re.compile(r"^(?P<text>(?P<margin> *)\S.*?)::?\n\n?(?P<code>(?:(?P=margin) {4,}.*\n|\n)+)", re.MULTILINE)
_SECTIONS = {"Args", "Arguments", "Attributes", "Raises", "Returns", "Yields", "Keyword Args", "Parameters"}


class Examples(Extension):
    """Rewrites every docstring that griffe reads, and completes signatures."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = link_pages(fence_code(obj.docstring.value))

    def on_package(self, *, pkg: Module, **_: object) -> None:
        """Complete the signatures of a package, in which all names are known now."""
        complete_pools(pkg)
        complete_classes(pkg)
        _walk(pkg)


def _walk(owner: Object) -> None:
    for member in owner.members.values():
        if isinstance(member, Function):
            show_defaults(member)
            for overloaded in getattr(owner, "overloads", {}).get(member.name, ()):
                show_defaults(overloaded)
        elif isinstance(member, Attribute) and member.docstring is not None and isinstance(member.value, ExprCall):
            member.value = None  # how an attribute is made is nobody's concern
        elif isinstance(member, Object) and not member.is_alias:
            _walk(member)


def link_pages(text: str) -> str:
    """Return a docstring in which a page that it names as `docs/NAME.md` is a link with the title of that page.

    Example::

        >>> link_pages("see `docs/data.md`")
        'see [Large values](../data.html)'
    """
    return _PAGE.sub(_linked, text)


def _linked(match: re.Match[str]) -> str:
    title = (_DOCS / f"{match['name']}.md").read_text().partition("\n")[0].lstrip("# ")
    return f"[{title}](../{match['name']}.html)"


def fence_code(text: str) -> str:
    """Return a docstring in which indented code after `Example:` or `...::` is a fenced block.

    Example::

        >>> fence_code("Example::\\n\\n    x = 1\\n")
        '**Example**\\n\\n```python\\nx = 1\\n```\\n'
    """
    return _CODE.sub(_fenced, text.rstrip("\n") + "\n")


def _fenced(match: re.Match[str]) -> str:
    text, margin, code = match["text"], match["margin"], match["code"]
    has_two_colons = match[0].startswith(f"{text}::")
    is_example = text.strip() in ("Example", "Examples")
    if not is_example and (not has_two_colons or text.strip() in _SECTIONS):
        return match[0]
    title = f"{margin}**{text.strip()}**" if is_example else f"{text}:"
    body = textwrap.dedent(code).strip("\n")
    language = "pycon" if body.startswith(">>>") else "python"
    after = "\n" if code.endswith("\n\n") else ""
    return textwrap.indent(f"\n```{language}\n{body}\n```\n", margin).join([f"{title}\n", after])
