"""Blocks of all pages are of kinds that are known, and each kind is held to what it is: settings load, commands parse.

What a block does is tried elsewhere: programs and scripts in test_pages.py and tests/integration/test_page_files.py,
cells and prompts in tests/integration/notebooks, pools in tests/integration/test_launching_pages.py.
"""

import ast
import re
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from blocks import Block, blocks_of
from shell_lines import commands_in, own_commands, parse_own, typed_lines
from stage import ROOT, places

PAGES = sorted({ROOT / "README.md", *(path for path in places() if path.suffix == ".md")})
TUTORIALS = sorted(ROOT.glob("tutorials/[0-9]*.py"))
BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page.read_text())]

KINDS = {
    "python": "program, which is run; with a title a file",
    "py": "cell, which may await at its top",
    "pycon": "prompt of Python with what it shows",
    "bash": "script, which is run",
    "sh": "commands, which need a cluster or install something",
    "console": "commands behind `$ `, with what they show",
    "text": "output, or a drawing of letters",
    "mermaid": "drawing",
    "toml": "settings",
    "ini": "settings of pytest, with which the suite of its page is run",
    "yaml": "settings of other programs",
    "promql": "questions to Prometheus",
}
"""Kinds of blocks."""

_CELL = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_HOLE = re.compile(r"\{\{\w+\}\}")
_METRIC = re.compile(r"\bgrainlike_\w+|\bup\b(?=\{)")
_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _name(page: Path, block: Block) -> str:
    return f"{page.relative_to(ROOT)}:{block.line}"


def _of(*kinds: str) -> pytest.MarkDecorator:
    """Parametrize a test with the blocks of these kinds."""
    found = [(page, block) for page, block in BLOCKS if block.kind in kinds]
    assert found, kinds
    return pytest.mark.parametrize(("page", "block"), found, ids=[_name(*one) for one in found])


def _script(block: Block) -> str:
    return typed_lines(block.body) if block.kind == "console" else block.body


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_are_of_kinds_that_are_known(page: Path) -> None:
    text = page.read_text()
    found = blocks_of(text)
    assert {_name(page, block): block.kind for block in found if block.kind not in KINDS} == {}
    # One that the tests do not find is one that nobody tries.
    fences = re.findall(r"^[ >]*(?:```|~~~).*$", text, re.MULTILINE)
    assert len(fences) == 2 * (len(found) + sum(block.has_output for block in found))


@_of("python", "py", "pycon")
def test_code_is_python(page: Path, block: Block) -> None:
    code = block.body
    if block.kind == "pycon":
        code = "\n".join(re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", code, re.MULTILINE))
    compile(code, _name(page, block), "exec", 0 if block.kind == "python" else _CELL)


@_of("toml")
def test_settings_are_toml(page: Path, block: Block) -> None:
    assert tomllib.loads(block.body)


@_of("yaml")
def test_settings_of_other_programs_are_yaml(page: Path, block: Block) -> None:
    assert isinstance(yaml.safe_load(block.body), dict)


@_of("promql", "yaml")
def test_questions_to_prometheus_are_about_metrics_that_there_are(page: Path, block: Block) -> None:
    table = page.read_text()
    for name in _METRIC.findall(block.body):
        assert name == "up" or f"`{name}`" in table or name in _short_names(table), name


def _short_names(page: str) -> set[str]:
    """Return the metrics of a table that are written as an ending, as `_max` beside `grainlike_pool_workers_min`."""
    found = set()
    for row in re.findall(r"^\| (`grainlike_.*?) \|", page, re.MULTILINE):
        names = re.findall(r"`(\w+)`", row)
        whole = [name for name in names if name.startswith("grainlike_")]
        found |= {f"{one[: one.rindex('_')]}{ending}" for one in whole for ending in names if ending.startswith("_")}
        found |= {f"{one}{ending}" for one in whole for ending in names if ending.startswith("_")}
    return found


@_of("sh", "bash", "console")
def test_a_shell_understands_what_is_typed(page: Path, block: Block) -> None:
    script = _HOLE.sub("true", _script(block))
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@_of("bash")
def test_a_script_is_on_a_page_whose_scripts_are_run(page: Path, block: Block) -> None:
    folder = page.relative_to(ROOT / "docs").parts[0]
    assert folder in ("start", "concepts", "how-to", "why", "launching", "launching.md"), "no test runs it: `sh`?"


@_of("sh", "bash", "console")
def test_our_commands_have_these_options(page: Path, block: Block, tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()  # commands that read one look whether it is there
    script = _HOLE.sub("true", _script(block))
    found = own_commands(script)
    written = [line for line in script.splitlines() if re.match(r"[^#]*\bgrainlike(?:_worker)? +-?[a-z]", line)]
    assert len(found) >= len(written), f"of {written} only {found} are read"
    for words in found:
        parse_own([re.sub(r"^~", str(tmp_path), word) for word in words])


@_of("sh", "bash", "console")
def test_what_else_is_typed_is_there(page: Path, block: Block) -> None:
    """Targets of make, extras that pip installs, programs and modules of Python that are ours."""
    for words in commands_in(_HOLE.sub("true", _script(block))):
        if words[0] == "make":
            assert set(_targets_of(words)) <= _TARGETS, words
        elif words[:2] == ["pip", "install"]:
            assert set(_extras_of(words)) <= set(_PYPROJECT["project"]["optional-dependencies"]), words
        elif words[:2] == ["python", "-m"]:
            assert find_spec(words[2]), words
        elif words[0] == "python" and "/" in words[1]:
            assert (ROOT / words[1]).is_file(), words


_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _targets_of(words: list[str]) -> list[str]:
    return [word for word in words[1:] if "=" not in word]


def _extras_of(words: list[str]) -> list[str]:
    return [extra for word in words for names in re.findall(r"\[(.*)\]", word) for extra in names.split(",")]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_our_commands_in_a_tutorial_have_these_options(path: Path) -> None:
    about = ast.get_docstring(ast.parse(path.read_text())) or ""
    lines = re.findall(r"^ {4,}(?:\$ )?(grainlike \S.*)$", about, re.MULTILINE)
    for line in lines:
        for words in own_commands(line):
            parse_own(words)


_OF_TODAY = [path for path in (*PAGES, *TUTORIALS) if path.name != "CHANGELOG.md"]
"""Texts about commands as they are; a change log tells how they were, too."""


@pytest.mark.parametrize("path", _OF_TODAY, ids=lambda path: str(path.relative_to(ROOT)))
def test_our_commands_within_a_sentence_have_these_options(path: Path) -> None:
    """They may be incomplete, and have `NAME`, `...` or `[--option]` in place of what is typed."""
    for span in re.findall(r"`(grainlike [^`\n]*)`", path.read_text()):
        if not re.search(r"grainlike [A-Z]", span):
            for words in own_commands(re.sub(r"[][]", "", span)):
                _parse_known([re.sub(r"^[A-Z]+$|^\.\.\.$", "1", word) for word in words])


def _parse_known(words: list[str]) -> None:
    """Parse a command line, which may lack values; fail for a command or an option that does not exist."""
    try:
        parse_own(words)
    except Exception as error:
        if "No such" in str(error):
            raise


def test_a_command_that_does_not_exist_is_refused() -> None:
    for line in ("nosuch", "head nosuch", "ls --nosuch", "head start --nosuch", "simulate --jobs many"):
        with pytest.raises(Exception, match=r"No such .*nosuch|integer"):
            parse_own(line.split())


def test_commands_are_found_wherever_they_are_typed() -> None:
    script = """
    A=1 grainlike ls & exec ~/bin/grainlike jobs --json >jobs.json | jq . # grainlike top
    ssh node1 'chmod 600 a; grainlike head status'
    python3 -m grainlike_worker --head \\
        a.json
    """
    assert own_commands(script) == [
        ["ls"],
        ["jobs", "--json"],
        ["head", "status"],
        ["worker", "start", "--head", "a.json"],
    ]
    assert typed_lines("$ a\nshown\nhost$ b\n") == "a\nb"
