"""Pages for the site alone show what happens: programs and shell scripts are run, and outputs compared.

Programs of all pages share one process (tests/helpers/blocks.py), which is much cheaper than a process for each;
tests/integration/test_page_files.py has the other pages, and notebooks/test_page_cells.py beside it the cells of all.
"""

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import Block, blocks_of
from limits import LIMIT_S
from stage import ROOT

FOLDERS = ("start", "concepts", "how-to", "why")
PAGES = [path for folder in FOLDERS for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
CODE = [
    pytest.param(page, block, id=f"{page.parent.name}/{page.stem}:{block.line}")
    for page in PAGES
    for block in blocks_of(page.read_text())
    if block.kind == "python" and not block.title
]
SCRIPTS = [
    pytest.param(page, block, id=f"{page.parent.name}/{page.stem}:{block.line}")
    for page in PAGES
    for block in blocks_of(page.read_text())
    if block.kind == "bash"
]
needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the examples are for two cores or more")


def _environment(home: Path) -> dict[str, str]:
    home.mkdir(mode=0o700, exist_ok=True)
    commands = Path(sys.executable).parent
    return {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]),
        **dict.fromkeys(["HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"], str(home)),
    }


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, str | None]]:
    folder = tmp_path_factory.mktemp("pages")
    script = ROOT / "tests" / "helpers" / "blocks.py"
    ended = subprocess.run(
        [sys.executable, script, folder, *PAGES],
        env=_environment(folder / "home"),
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(rows) == len(CODE), ended.stderr
    return {(row["page"], row["line"]): row for row in rows}


@needs_two_cores
@pytest.mark.parametrize(("page", "block"), CODE)
def test_code_prints_what_the_page_shows(
    page: Path, block: Block, outcomes: dict[tuple[str, int], dict[str, str | None]]
) -> None:
    row = outcomes[str(page), block.line]
    assert row["error"] is None, row["error"]
    _compare(block.output, row["printed"] or "")


@needs_two_cores
@pytest.mark.parametrize(("page", "block"), SCRIPTS)
def test_a_script_prints_what_the_page_shows(page: Path, block: Block, tmp_path: Path) -> None:
    environment, is_whole = _environment(tmp_path / "home"), False
    for file in blocks_of(page.read_text()):
        if file.title:
            (tmp_path / file.title).write_text(file.body)
    try:
        ended = subprocess.run(
            ["bash", "-e", "-c", block.body],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        is_whole = True
    finally:
        if not is_whole:  # a head that it has started would go on
            subprocess.run(["grainlike", "head", "stop"], env=environment, check=False, timeout=LIMIT_S)
    _compare(block.output, ended.stdout)


def test_pages_and_scripts_are_found() -> None:
    assert len(PAGES) >= 17
    assert len(CODE) >= 17
    assert len(SCRIPTS) >= 2


def _compare(expected: str, actual: str) -> None:
    if not doctest.OutputChecker().check_output(expected, actual, doctest.ELLIPSIS):
        pytest.fail(f"expected\n{expected}\ngot\n{actual}", pytrace=False)
