"""What the pages about launching show: settings that load, commands that are understood, scripts that run.

Of the pages on batch systems, what needs the system is tried in `tests/launch`.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from limits import LIMIT_S
from pages import ROOT, blocks
from waiting import until_blocking

from grainlike.cli import main
from grainlike.launch import LAUNCHERS, Slurm, load, pool_class_of
from grainlike.launch._pool import keys_of
from grainlike.settings import _files

PAGES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/launching/*.md"))
OVERVIEW = "docs/launching.md"
POOLS = [pool_class_of(kind) for kind in LAUNCHERS]

_OF_OTHERS = ("No such file or directory", "sbatch")
"""Words in the table of causes that programs of others print."""


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """A working directory, a home and a site of a test's own."""
    for name in ("work", "config/grainlike", "etc", "state"):
        (tmp_path / name).mkdir(parents=True, mode=0o700)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(_files, "SITE", tmp_path / "etc" / "grainlike.toml")
    return tmp_path


def run(*words, code=0, **more):
    """Run a command of ours; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=LIMIT_S, check=False, **more
    )
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def printed(capsys, *words, code=0):
    """Run a command of ours in this process; return what it printed."""
    assert main(list(words)) == code, f"{words}: {capsys.readouterr()}"
    return capsys.readouterr().out


def commands(page):
    """Return the commands of a page, one a line."""
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line]


def test_each_kind_of_pool_has_a_page():
    known = {tuple(re.findall(r"kind `(\w+)`, class `(\w+)`", (ROOT / page).read_text())[0]) for page in PAGES}
    assert known == {(pool.kind, pool.__name__) for pool in POOLS}
    overview = (ROOT / OVERVIEW).read_text()
    for pool in POOLS:
        assert re.search(
            rf"^\| \[.*\]\(launching/\w+\.md\) \| `{pool.kind}` \| `{pool.__name__}` \|", overview, re.MULTILINE
        )


def test_the_overview_has_every_key_of_every_pool():
    overview = (ROOT / OVERVIEW).read_text()
    for pool in POOLS:
        for key in keys_of(pool):
            assert re.search(rf"`{key}`", overview), key


@pytest.mark.parametrize("page", PAGES)
def test_the_settings_of_a_page_make_pools(page):
    settings = blocks(page, "toml")
    assert settings
    for text in settings:
        Path("grainlike.toml").write_text(text)
        for name in tomllib.loads(text)["pool"]:
            assert load(name).script()


def test_users_extend_the_pools_of_their_site(places):
    site, users = (text for text in blocks(OVERVIEW, "toml") if text.startswith("# "))
    assert site.startswith("# /etc/grainlike/grainlike.toml\n")
    assert users.startswith("# ~/.config/grainlike/grainlike.toml\n")
    for text, path in ((site, _files.SITE), (users, places / "config" / "grainlike" / "grainlike.toml")):
        path.write_text(text)
        path.chmod(0o644)
    cpu, train = load("cpu"), load("train")
    assert cpu == Slurm(
        "cores=64 memory=240Gi",
        walltime="8:00:00",
        max=16,
        queue="standard",
        account="p17",
        setup=["module load python/3.12"],
        scratch="/local/$USER",
    )
    assert (train.queue, train.account, train.walltime) == ("gpu", "p17", "2:00:00")
    assert "gpus=1" in str(train.offer)
    assert load("standard").account == ""


@pytest.mark.parametrize("page", ["README.md", OVERVIEW, *PAGES])
def test_the_commands_that_bring_a_pool_up_are_understood(page, capsys, monkeypatch):
    """Without the batch system a rehearsal prints the command and the script, and says that the system is not here."""
    Path("grainlike.toml").write_text("\n".join(blocks(page, "toml")) if page in PAGES else "")
    found = [line for line in commands(page) if line.startswith("grainlike up ")]
    assert found or page == OVERVIEW
    monkeypatch.setenv("PATH", "/usr/bin")
    for line in found:
        program, *words = shlex.split(line)
        assert program == "grainlike"
        assert printed(capsys, *words, "--dry", code="up local" not in line).startswith("$ ")


@pytest.mark.parametrize("page", PAGES)
def test_the_script_by_hand_of_a_page_starts_a_worker_with_options_that_there_are(page, capsys):
    (script,) = blocks(page, "bash")
    assert script.startswith("#!/bin/bash\n")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    known = printed(capsys, "worker", "start", "--help")
    options = re.search(r"(?:grainlike worker start|grainlike_worker)(.*)", script)
    assert options
    for option in re.findall(r"--[a-z]+", options[1]):
        assert option in known


def test_a_script_of_ones_own_has_holes_that_are_known():
    (own,) = blocks(OVERVIEW, "bash")
    Path("own.sh").write_text(own)
    text = Slurm("cores=2", walltime=60, setup=["export A=1"], script="own.sh").script()
    assert "{{" not in text
    assert text.index("#SBATCH --cpus-per-task=2") < text.index("export A=1") < text.index("grainlike_worker")
    for name in re.findall(r"`\{\{(\w+)\}\}`", (ROOT / OVERVIEW).read_text()):
        Path("own.sh").write_text(f"{own}# {{{{{name}}}}}\n")
        assert "{{" not in Slurm("cores=2", walltime=60, script="own.sh").script()


def test_the_causes_that_are_listed_are_words_that_are_printed():
    source = "\n".join(path.read_text() for path in sorted((ROOT / "grainlike").rglob("*.py")))
    table = (ROOT / OVERVIEW).read_text().partition("| seen | cause")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    for row in rows:
        for words in re.findall(r"`([^`]* [^`]*)`", row):
            parts = [part.strip(" :;?") for part in re.split(r"\.\.\.|\d+\w*|: |; |\(|\bcpu\b|[Ss]lurm|sbatch", words)]
            fragment = max((part for part in parts if part not in _OF_OTHERS), key=len)
            assert fragment in source, f"{words!r}: nothing prints {fragment!r}"


def test_a_cluster_on_this_machine_in_three_commands_and_a_worker_by_hand(places):
    Path("simulate").write_text('#!/bin/sh\necho "simulated $2 in $GRAINLIKE_BLOCK"\n')
    Path("simulate").chmod(0o700)
    start, up, submit = commands("docs/launching/local.md")
    run(*shlex.split(start))
    try:
        run(*shlex.split(up))
        printed = run(*shlex.split(submit))
        assert re.search(r"^simulated 1 in local-1$", printed, re.MULTILINE), printed
        run("grainlike", "down")
        (script,) = blocks("docs/launching/local.md", "bash")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with subprocess.Popen(["bash", "-c", script], env={**os.environ, "PATH": path}) as worker:
            (row,) = until_blocking(lambda: json.loads(run("grainlike", "ls", "--json")))
            assert row["pid"] == worker.pid
            worker.terminate()
    finally:
        run("grainlike", "head", "stop")
