"""Checks that a change must pass, by the commands that `.ci/run` gives to `make`: which tests run on which Python."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).parents[2]
MAKE = """#!/bin/sh
echo "$@" >>{log}
case "$*" in *" pythons") echo {pythons}; esac
{more}
"""
PYTHON = """#!/bin/sh
case "$*" in "-m venv "*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"
    cp "$(dirname "$0")/grainlike" "$folder/bin/grainlike"
esac
"""
GRAINLIKE = """#!/bin/sh
case "$*" in "bench --list") echo "pip install ./benchmarks" >&2; exit 1; esac
"""


def commands(folder: Path, pythons: str, more: str = "") -> tuple[int, list[str]]:
    """Return how `.ci/run` ended where a `make` only notes its words and a Python does nothing; and those words."""
    log = folder / "log"
    own = f".venv-{pythons.split()[0].removeprefix('python')}"
    for name, text in (
        (".ci/run", (ROOT / ".ci" / "run").read_text()),
        (".ci/smoke.py", ""),
        ("bin/make", MAKE.format(log=log, pythons=pythons, more=more)),
        (f"{own}/bin/python", PYTHON),
        (f"{own}/bin/grainlike", GRAINLIKE),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    argv = ["bash", folder / ".ci" / "run"]
    ended = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=LIMIT_S)
    return ended.returncode, log.read_text().splitlines()


@pytest.fixture(scope="module")
def supported() -> list[str]:
    listed = subprocess.run(["make", "-s", "pythons"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def test_all_tests_run_on_the_oldest_and_the_newest_and_those_of_units_between(
    supported: list[str], tmp_path: Path
) -> None:
    ended, said = commands(tmp_path, " ".join(supported))
    assert ended == 0
    oldest, *between, newest = supported
    assert f"PYTHON={oldest} test" in said
    again = tmp_path / f".venv-{oldest.removeprefix('python')}" / "bin" / "python"
    assert f"PYTHON={newest} tests AGAIN={again}" in said
    units = " ".join(between)
    for python in (*between, newest):
        assert f"PYTHON={oldest} test-pythons PYTHONS={python} UNITS={units} AGAIN={again}" in said


def test_the_same_tests_run_on_each() -> None:
    """Those of `make test` are those of `make tests`, whichever Python is asked for."""
    recipes = [recipe(*words) for words in (["test"], ["tests"], ["tests", "PYTHON=python3"])]
    suites = [sorted(re.findall(r"-m pytest (.*tests/[^;|]*)", text)) for text in recipes]
    assert len(suites[1]) >= 4
    assert suites[1] == suites[2]
    assert set(suites[1]) <= set(suites[0])


def test_the_newest_leaves_out_what_comes_out_alike_on_any_and_lives_through_worlds_of_another() -> None:
    everything, again = run_and_ignored(), run_and_ignored("AGAIN=/the/oldest")
    dropped = everything[0] - again[0]
    outages = {path for path in dropped if path.startswith("tests/integration/faults/test_faults_")}
    computing = {"tests/machines", "tests/simulation"}
    alike = {"tests/architecture", "tests/site", "tests/machines/test_schedulers_machine.py"}
    assert dropped == alike | computing | outages
    known = subprocess.check_output(["make", "-pn", "help"], cwd=ROOT, text=True, env=bare_environment())
    named = re.search(r"^OUTAGES := (.*)$", known, re.MULTILINE)
    assert named is not None
    assert outages == {f"tests/integration/faults/test_faults_{name}.py" for name in named[1].split()}
    # What user code and an interpreter do to each other is looked at on both.
    assert len(outages) < len({path for path in everything[0] if "/test_faults_" in path}) / 2
    left_out = again[1] - everything[1] - outages
    worlds = {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "simulation").glob("test_*.py")}
    own = {"tests/simulation/test_parts.py", "tests/simulation/test_replay.py"}
    pages = {"tests/integration/test_page_files.py"}
    assert left_out == {"tests/unit/fleet", "tests/unit/scheduler"} | pages | worlds - own
    assert again[1] & computing == {"tests/machines"}
    assert again[0] < everything[0]
    assert all((ROOT / path).exists() for path in again[1])
    told = recipe("tests", "AGAIN=/the/oldest")
    assert 'export GRAINLIKE_TEST_ALIKE="/the/oldest" GRAINLIKE_TEST_KILLS=40 GRAINLIKE_TEST_WORLDS=60;' in told
    assert "GRAINLIKE_TEST" not in recipe("tests")


def test_those_between_run_units_but_for_what_comes_out_alike_and_live_through_worlds_of_another() -> None:
    told = recipe("test-pythons", "PYTHONS=python3.12", "AGAIN=/the/oldest")
    (suite,) = re.findall(r"(GRAINLIKE_TEST_ALIKE=.*pytest[^;|]*)", told.replace("\\\n", " "))
    assert suite.startswith('GRAINLIKE_TEST_ALIKE="/the/oldest" ')
    ran = {word for word in re.sub(r"--ignore \S+", "", suite).split() if word.startswith("tests/")}
    assert ran == {"tests/unit", "tests/simulation/test_replay.py"}
    ignored = set(re.findall(r"--ignore (\S+)", suite))
    assert ignored == {"tests/unit/bench", "tests/unit/fleet", "tests/unit/scheduler"}
    assert "--ignore" not in recipe("test-pythons", "PYTHONS=python3.12")


def run_and_ignored(*words: str) -> tuple[set[str], set[str]]:
    """Return the paths that `make tests` names to pytest, and those that it leaves out of some of its programs."""
    suites = " ".join(re.findall(r"-m pytest (.*?)(?:;| \|\|)", recipe("tests", *words)))
    ignored = set(re.findall(r"--ignore (\S+)", suites))
    return set(re.sub(r"--ignore \S+", "", suites).split()), ignored


def recipe(*words: str) -> str:
    """Return the commands of what `make` is asked for by these words."""
    told = ["make", "-n", *words]
    return subprocess.run(told, cwd=ROOT, capture_output=True, text=True, check=True, env=bare_environment()).stdout


def bare_environment() -> dict[str, str]:
    """Return the environment without what a `make` that runs these tests has told its children."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}


@pytest.mark.parametrize(
    "failing",
    ["test", "tests", "test-engines", "test-launch", "test-dashboard", "PYTHONS=python3.12", "PYTHONS=python3.13"],
)
def test_what_fails_anywhere_fails_the_whole(failing: str, tmp_path: Path) -> None:
    """That command alone fails, and all else is as where nothing does."""
    more = f'case " $* " in *" {failing} "*) exit 7; esac'
    ended, said = commands(tmp_path, "python3.11 python3.12 python3.13", more)
    assert ended != 0
    assert [line for line in said if f" {failing} " in f" {line} "]


def test_other_engines_and_what_the_newest_needs_are_installed_while_the_tests_of_the_oldest_run(
    tmp_path: Path,
) -> None:
    """Those tests read what the others write: one after another, they would read for ever."""
    written = tmp_path / "written"
    os.mkfifo(written)
    kept = os.open(written, os.O_RDWR)
    try:
        more = f"""case "$*" in
            *" test") head -n 2 {written} >/dev/null;;
            *" test-engines" | *.venv-3.13/.dev) echo >{written};;
        esac"""
        ended, said = commands(tmp_path, "python3.11 python3.12 python3.13", more)
    finally:
        os.close(kept)
    assert ended == 0
    assert "PYTHON=python3.13 .venv-3.13/.dev" in said


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_first_thing_that_the_two_commands_do_is_to_say_what_they_do(target: str, tmp_path: Path) -> None:
    """Installing took 86 s of silence."""
    words = ["make", "-n", f"VENV={tmp_path / '.venv'}", target]
    told = subprocess.run(words, cwd=ROOT, env=bare_environment(), capture_output=True, text=True, check=True)
    lines = told.stdout.splitlines()
    assert lines[0].startswith('echo "Making an environment in ')
    for slow in (line for line in lines if " pip install" in line and not line.startswith(("\t", "echo"))):
        assert lines[lines.index(slow) - 1].startswith('echo "'), slow
