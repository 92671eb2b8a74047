"""View of a placeholder in a notebook follows its call, in place, and stays with what became of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S
from notebooks import Kernel, kernel_environment
from prompts import IPYTHON, at_prompt

SET_UP = """
import asyncio, gc
from pathlib import Path
from grainlike import Cores, Executor, cancel, delayed, start
from waiting import until, until_files_blocking
from grainlike import info

@delayed
def wait_for(sign):
    until_files_blocking(Path(sign).parent, Path(sign).exists)
    return "done"

ex = await Executor(local=Cores([0]))
"""


@pytest.fixture(scope="module", autouse=True)
def _functions(kernel: Kernel) -> None:
    kernel.run(SET_UP)


def updates_of(kernel: Kernel, shown: dict[str, Any]) -> list[str]:
    """Return the texts by which the kernel has changed a display, whichever cell ran then."""
    place = shown["transient"]["display_id"]
    contents = [content for cell in kernel.cells for content in cell.contents("update_display_data")]
    return [content["data"]["text/html"] for content in contents if content["transient"]["display_id"] == place]


def test_a_running_placeholder_changes_in_place_until_it_has_ended(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(f"before_ = start((wait_for @ Cores(1))('{tmp_path}/before'))")  # has the only core
    cell = kernel.run(f"r_ = start((wait_for @ Cores(1))('{tmp_path}/go')); r_")
    (shown,) = cell.contents("display_data")
    assert ">pending<" in shown["data"]["text/html"]
    assert shown["data"]["text/plain"] == f"<Delayed wait_for('{str(tmp_path)[:20]}'…): pending, cores=1>"
    assert cell.contents("execute_result") == []
    kernel.run(f"Path('{tmp_path}/before').touch(); done = await before_")
    kernel.until(lambda: any(">running<" in html for html in updates_of(kernel, shown)))
    assert kernel.run("_ is r_").value == "True"
    kernel.run(f"Path('{tmp_path}/go').touch(); await r_")
    assert ">succeeded<" in updates_of(kernel, shown)[-1]
    ended = len(updates_of(kernel, shown))
    kernel.run("await asyncio.sleep(0)")
    assert kernel.run("ex._views._timer, len(ex._views._views)").value == "(None, 0)"
    assert len(updates_of(kernel, shown)) == ended


def test_a_placeholder_that_is_cancelled_says_so_and_is_let_go(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(f"r_ = start((wait_for @ Cores(1))('{tmp_path}/never'))")
    (shown,) = kernel.run("r_").contents("display_data")
    kernel.run("cancel(r_); await until(lambda: not ex._views._views)")
    assert ">cancelled<" in updates_of(kernel, shown)[-1]


def test_one_that_has_ended_or_not_begun_is_shown_as_it_is(kernel: Kernel, tmp_path: Path) -> None:
    (lazy,) = kernel.run("(wait_for @ Cores(1))('x')").contents("execute_result")
    assert ">lazy<" in lazy["data"]["text/html"]
    kernel.run("r_ = delayed(len)('abc'); await r_")
    (ended,) = kernel.run("r_").contents("execute_result")
    assert ">succeeded<" in ended["data"]["text/html"]


def test_names_are_escaped_in_changes_too(kernel: Kernel, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    kernel.run(f"evil = delayed(wait_for.__wrapped__, name={name!r}) @ Cores(1)")
    (shown,) = kernel.run(f"r_ = start(evil('{tmp_path}/go')); r_").contents("display_data")
    kernel.run(f"Path('{tmp_path}/go').touch(); await r_")
    changed = updates_of(kernel, shown)
    assert changed
    assert all("<script>" not in html and "&lt;script&gt;" in html for html in [shown["data"]["text/html"], *changed])


def test_a_front_end_that_fails_stops_the_view_and_not_the_work(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(f"r_ = start((wait_for @ Cores(1))('{tmp_path}/go'))")
    kernel.run("r_")
    kernel.run("ex._views._views[0]._handle.update = lambda *_, **__: 1 / 0")
    assert kernel.run(f"Path('{tmp_path}/go').touch(); await r_").value == "'done'"
    assert kernel.run("len(ex._views._views)").value == "0"


NOTEBOOK = """
import json, sys
import nbformat
from nbclient import NotebookClient

cells = sys.argv[1:]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(notebook, kernel_name="python3", timeout=180).execute()
print(json.dumps([cell.outputs for cell in notebook.cells]))
"""


def test_a_saved_notebook_has_what_became_of_it(tmp_path: Path) -> None:
    cells = [
        SET_UP,
        f"r_ = start((wait_for @ Cores(1))('{tmp_path}/go')); r_",
        f"Path('{tmp_path}/go').touch()\nawait r_",
    ]
    argv = [sys.executable, "-c", NOTEBOOK, *cells]
    environment = {**os.environ, **kernel_environment(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    _, (shown,), _ = json.loads(done.stdout)
    assert ">succeeded<" in shown["data"]["text/html"]
    assert "succeeded" in shown["data"]["text/plain"]


def test_ipython_in_a_terminal_shows_the_repr(tmp_path: Path) -> None:
    with at_prompt(IPYTHON, tmp_path) as prompt:
        prompt.run("from grainlike import Cores, Executor, delayed, start; import anyio")
        prompt.run("r_ = start((delayed(anyio.sleep_forever) @ Cores(1))()); await anyio.sleep(0)")
        assert "]: <Delayed sleep_forever(" in prompt.run("r_")
