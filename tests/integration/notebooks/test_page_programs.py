"""Programs of the pages, pasted at the prompt of Python, do there what they do as files.

All are typed at one prompt, where each page begins without the names of others. As files they are run by
tests/integration/test_page_files.py and tests/site/test_pages.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pexpect
import pytest
from page_programs import Example, Program, compare, environment_of, finish, nothing_left, read_page, start_beside
from pasting import PlainPrompt, plain_prompt

ROOT = Path(__file__).parents[3]
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "worker/*.md") for path in sorted(ROOT.glob(pattern))]
EXAMPLES = [pytest.param(page, example, id=example.name) for page in PAGES for example in read_page(page)[0]]

_REFUSED = {"@delayed(cache=": "uncaught ValueError: cache= goes by a function's name, and ..."}
"""What is only for functions of modules, and what is said about it at a prompt."""

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the examples are for two cores or more")


class Desk:
    """Place with a prompt. After one that has died, or does not answer, there is another."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.page: Path | None = None
        self._stack = ExitStack()
        self.prompt = self._stack.enter_context(plain_prompt(home))

    def show(self, page: Path, folder: Path) -> PlainPrompt:
        """Return the prompt, in this folder, without names of other pages."""
        if page != self.page:
            self.prompt.begin_page(folder)
            self.page = page
        return self.prompt

    def renew(self) -> None:
        """Have another prompt."""
        self.close()
        self.prompt, self.page = self._stack.enter_context(plain_prompt(self.home)), None

    def close(self) -> None:
        """Kill the prompt, if it still lives."""
        self._stack.close()


@pytest.fixture(scope="module")
def desk(
    tmp_path_factory: pytest.TempPathFactory, watch_leaks: Callable[[], AbstractContextManager[None]]
) -> Iterator[Desk]:
    home = tmp_path_factory.mktemp("prompt")
    with watch_leaks(), nothing_left(home):
        desk = Desk(home)
        try:
            yield desk
            assert desk.prompt.end() == 0
        finally:
            desk.close()


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_a_program_prints_at_a_prompt_what_the_page_shows(
    page: Path, example: Example, desk: Desk, tmp_path: Path
) -> None:
    refused = next((said for use, said in _REFUSED.items() if use in example.program), None)
    with ExitStack() as stack:
        workers: list[Program] = []

        def start_workers() -> None:
            environment = environment_of(desk.home)
            begun = (start_beside(command, desk.home, tmp_path, environment) for command in example.beside)
            workers.extend(map(stack.enter_context, begun))

        try:
            written = desk.show(page, tmp_path).paste(example.program, start_workers)
        except pexpect.ExceptionPexpect:
            desk.renew()
            raise
        for worker in workers:
            finish(worker)
    compare(example.output if refused is None else f"{refused}\n...", written)


def test_there_are_programs_to_paste() -> None:
    assert len(EXAMPLES) >= 65
