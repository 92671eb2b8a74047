"""Docstrings as Markdown: an extension of griffe that fences the code of examples."""

import re
import textwrap

from griffe import Extension, Object

__all__ = ["Examples", "fence_code"]

_CODE = re.compile(r"^(?P<text>(?P<margin> *)\S.*?)::?\n\n?(?P<code>(?:(?P=margin) {4,}.*\n|\n)+)", re.MULTILINE)
_SECTIONS = {"Args", "Arguments", "Attributes", "Raises", "Returns", "Yields", "Keyword Args", "Parameters"}


class Examples(Extension):
    """Fences the indented code of every docstring that griffe reads."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = fence_code(obj.docstring.value)


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
