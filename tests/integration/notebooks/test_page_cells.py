"""Cells of the pages, `py` blocks, which await at the top: in a real Jupyter kernel, and typed at the prompt of
`python -m asyncio`. Of a page they run in order; what each shows is the `text` block after it.

Programs, which are complete, are run as files, and typed at the prompt of Python: tests/integration/test_page_files.py,
tests/site/test_pages.py, and test_page_programs.py here.
"""

from __future__ import annotations

import doctest
import os
from pathlib import Path

import pytest
from blocks import blocks_of
from notebooks import Kernel
from pasting import statements_of
from prompts import ASYNCIO, at_prompt

ROOT = Path(__file__).parents[3]
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "worker/*.md") for path in sorted(ROOT.glob(pattern))]
CELLS = {
    page: cells for page in PAGES if (cells := [block for block in blocks_of(page.read_text()) if block.kind == "py"])
}

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the cells are for two cores or more")

pages = pytest.mark.parametrize("page", CELLS, ids=lambda page: str(page.relative_to(ROOT)))


@pages
def test_cells_of_a_notebook_show_what_the_page_shows(page: Path, kernel: Kernel) -> None:
    for block in CELLS[page]:
        cell = kernel.run(block.body)
        _compare(block.output, cell.written() + (f"{cell.value}\n" if cell.value is not None else ""))
    kernel.run("%reset -f")


@pages
def test_statements_at_a_prompt_show_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    with at_prompt(ASYNCIO, tmp_path, edits=True) as prompt:
        for block in CELLS[page]:
            written = "".join(prompt.run("\r".join(lines)) for lines in statements_of(block.body))
            _compare(block.output, written.replace("... ", ""))
        assert prompt.end() == 0


def test_a_page_with_cells_shows_what_they_do() -> None:
    assert len(CELLS) >= 2
    for page, cells in CELLS.items():
        assert any(block.output for block in cells), page


def _compare(expected: str, actual: str) -> None:
    if not doctest.OutputChecker().check_output(expected, actual, doctest.ELLIPSIS):
        pytest.fail(f"expected\n{expected}\ngot\n{actual}", pytrace=False)
