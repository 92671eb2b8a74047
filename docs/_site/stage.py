"""Sources of the site in one folder: pages of the checkout under the names that they have there, and generated ones.

    python docs/_site/stage.py build/site-source

A link from page to page leads to the same place in the folder; a link to a file that has no page there is an error.
"""

import ast
import json
import os
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

from api_pages import api_pages
from command_pages import command_pages

__all__ = ["places", "stage"]

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?P<head>\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_ELSEWHERE = re.compile(r"^[a-z]+:")
_OTHERS = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "README.md": "index.md",
    "worker/README.md": "worker.md",
    "worker/Containerfile": "worker_image.md",
    "worker/units": "worker_units.md",
    "examples/README.md": "examples/index.md",
    "examples/sweep.ipynb": "examples/sweep.md",
    "tutorials/README.md": "tutorials/index.md",
    "tests/launch/fakes/README.md": "launching/fakes.md",
    "tests/launch/fakes/README-kubernetes.md": "launching/fakes_kubernetes.md",
}
"""Files outside of `docs` that have a page, and its name."""


def places() -> dict[Path, str]:
    """Return the files of the checkout that the site shows, with their names there."""
    shown = {ROOT / source: place for source, place in _OTHERS.items()}
    for path in sorted((ROOT / "docs").rglob("*")):
        place = path.relative_to(ROOT / "docs")
        if path.is_file() and place.parts[0] != "_site":
            shown[path] = place.as_posix()
    for path in sorted([*(ROOT / "tutorials").glob("[0-9]*.py"), *(ROOT / "examples").glob("*.py")]):
        shown[path] = f"{path.parent.name}/{path.stem}.md"
    shown.pop(ROOT / "README.md")  # the front page has its place; links to it lead there
    return shown


def stage(folder: Path) -> None:
    """Write the sources of the site into an empty folder.

    Raises:
        ValueError: a page links to a file that the site does not show.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shown = places()
    for source, place in shown.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            target.write_text(_relinked(_page(source), source, place, shown))
        else:
            shutil.copyfile(source, target)
    for place, text in {**api_pages(), **command_pages()}.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def _page(source: Path) -> str:
    """Return a file as Markdown: a tutorial is its docstring and its program, a notebook its cells."""
    if source.is_dir():
        return _folder(source)
    text = source.read_text()
    if source.suffix == ".py":
        title, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
        about, _, output = rest.partition("It prints::\n")
        about = about.replace("::\n\n    ", ":\n\n    ")  # Markdown has code by its margin alone
        program = text.partition('"""')[2].partition('"""')[2].strip("\n")
        printed = textwrap.dedent(output).strip("\n")
        shown = f"It prints:\n\n```text\n{printed}\n```\n" if printed else ""
        return f"# {title.rstrip('.')}\n{about}\n`{source.relative_to(ROOT)}`\n\n```python\n{program}\n```\n\n{shown}"
    if source.suffix == ".ipynb":
        return "\n".join(map(_cell, json.loads(text)["cells"])) + f"\n`{source.relative_to(ROOT)}`\n"
    if source.suffix == ".md":
        return text
    return f"# {source.name}\n\n```text\n{text}\n```\n"


def _cell(cell: dict[str, Any]) -> str:
    """Return a cell of a notebook as Markdown, with the outputs that are kept in it."""
    if cell["cell_type"] == "markdown":
        return f"{cell['source']}\n"
    shown = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
    return f"```python\n{cell['source']}\n```\n" + "".join(f"\n```text\n{text}\n```\n" for text in shown)


def _folder(source: Path) -> str:
    """Return the files of a folder as one page."""
    files = [path for path in sorted(source.iterdir()) if path.is_file()]
    parts = [f"## {path.name}\n\n```text\n{path.read_text()}\n```\n" for path in files]
    return f"# Files of {source.relative_to(ROOT)}\n\n" + "\n".join(parts)


def _relinked(text: str, source: Path, place: str, shown: dict[Path, str]) -> str:
    known = {**shown, ROOT / "README.md": _OTHERS["README.md"]}

    def lead(match: re.Match[str]) -> str:
        target = match["target"]
        if _ELSEWHERE.match(target):
            return match[0]
        path = (source.parent / target).resolve()
        if path in known:
            there = known[path]
        elif path.is_relative_to(ROOT / "docs") and path.relative_to(ROOT / "docs").parts[0] == "reference":
            there = path.relative_to(ROOT / "docs").as_posix()  # generated, and checked when the site is built
        else:
            raise ValueError(f"{source.relative_to(ROOT)} links to {target}, which is no page of the site")
        led = Path(os.path.relpath(there, Path(place).parent)).as_posix()
        return f"{match['head']}{led}{match['anchor'] or ''}"

    return _LINK.sub(lead, text)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
