"""Programs of pages, as files, print what the pages show; notebooks/test_page_programs.py types them at the prompt.

In Markdown, a block of `python` is a program, run alone in an empty directory. A block of `text` right after it is
its whole standard output, with `...` for what differs from run to run. `worker start` lines of a `console` block are
started beside the program before them, and log to a standard error that the page does not show.
"""

import os
from pathlib import Path

import pytest
from page_programs import PAGES, Example, read_page, run_example

EXAMPLES = [example for path in PAGES for example in read_page(path)[0]]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the examples are for two cores or more")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_program_prints_what_its_page_shows(example: Example, tmp_path: Path) -> None:
    run_example(example, tmp_path)


def test_there_is_something_to_run() -> None:
    assert sum(example.output != "" for example in EXAMPLES) >= 4
    assert any(example.beside for example in EXAMPLES)
