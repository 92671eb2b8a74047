"""Code blocks of Markdown pages, run: each program alone, all in the process of this script.

    python blocks.py DIRECTORY PAGE...

A block of `python` is a program, and runs as `__main__` in a directory of its own. For each a JSON line tells where it
is, what it printed, and how it failed. Blocks of `py` are cells, in which `await` works at the top
(tests/integration/notebooks/test_page_cells.py).
"""

import contextlib
import io
import json
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

__all__ = ["Block", "blocks_of"]

_BLOCK = re.compile(
    r"""^```(?P<kind>\w*)(?: title="(?P<title>[^"\n]*)")?\n(?P<body>.*?)^```$""", re.MULTILINE | re.DOTALL
)


@dataclass
class Block:
    """Block of a page, with the line where it begins, and the output that is shown after it.

    One with a title is a file, which does not run by itself.
    """

    kind: str
    line: int
    body: str
    output: str = ""
    title: str = ""
    has_output: bool = False


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page; a `text` block right after code is that code's output."""
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(text):
        kind, between = match["kind"], text[end : match.start()]
        if kind == "text" and found and not between.strip() and found[-1].kind in ("python", "py", "bash"):
            found[-1].output, found[-1].has_output = match["body"], True
        else:
            found.append(Block(kind, text.count("\n", 0, match.start()) + 1, match["body"], title=match["title"] or ""))
        end = match.end()
    return found


def _run_pages(directory: Path, pages: list[Path]) -> Iterator[dict[str, object]]:
    for page in pages:
        for block in blocks_of(page.read_text()):
            if block.kind == "python" and not block.title:
                work = directory / f"{page.stem}-{block.line}"
                work.mkdir()
                (work / "example.py").write_text(block.body)
                yield _outcome(page, block, partial(_run_program, work))


def _outcome(page: Path, block: Block, ran: Callable[[], None]) -> dict[str, object]:
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            ran()
        except BaseException:  # noqa: BLE001 - the next block runs in any case
            error = traceback.format_exc()
    return {"page": str(page), "line": block.line, "printed": printed.getvalue(), "error": error}


def _run_program(work: Path) -> None:
    os.chdir(work)
    runpy.run_path("example.py", run_name="__main__")


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    for row in _run_pages(Path(sys.argv[1]).absolute(), [Path(name) for name in sys.argv[2:]]):
        print(json.dumps(row), file=out, flush=True)
