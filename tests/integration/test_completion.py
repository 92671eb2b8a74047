"""Completion in real shells, at a terminal: commands, options, and what a real head knows.

zsh and fish are tried where they are installed; `make test-launch` installs them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from limits import LIMIT_S
from typing_keys import at_shell
from waiting import until

from grainlike import Cores, Executor, Resource, cancel, connect, delayed, start
from grainlike.cli import main
from grainlike.cli.completion import _values
from grainlike.net import accesses_for, make_credentials, parse_address, publish_access

START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--private", "-i"],
}

LOAD = {
    "bash": "bind 'set show-all-if-ambiguous on'; eval \"$(grainlike completion bash)\"",
    "zsh": 'autoload -U compinit; compinit -u -D; eval "$(grainlike completion zsh)"',
    "fish": "function fish_prompt; echo '> '; end; grainlike completion fish | source",
}

ROOT = Path(__file__).parents[2]

PATIENT = f"""\
#!{sys.executable}
import sys
from grainlike.cli import main
from grainlike.cli.completion import _values
_values.LIMIT_S = {LIMIT_S}
sys.exit(main())
"""
"""The program, which waits for its head as long as a busy machine takes: a key is pressed but once."""


def shells():
    """bash, and those that are there; all, where they have to be."""
    required = os.environ.get("GRAINLIKE_TEST_SHELLS", "").split()
    for name in START:
        missing = name not in required and shutil.which(name) is None
        yield pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"{name} is not installed"))


SHELLS = [*shells()]


@contextmanager
def loaded(shell, folder):
    """A shell that has loaded the completion, in a folder."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "grainlike").write_text(PATIENT)
    (programs / "grainlike").chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    with at_shell(START[shell], environment, folder) as typist:
        typist.press(LOAD[shell] + "; echo loa''ded\r")
        typist.until(lambda lines: any(line.endswith("loaded") and "''" not in line for line in lines))
        typist.clear()
        yield typist


def completed(typist, typed, *shown):
    """Press TAB behind `typed`, and wait until all that is to be shown is on the screen."""
    typist.press(typed + "\t")
    lines = typist.until(lambda lines: all(word in " ".join(lines) for word in shown))
    typist.back_at_keys()
    typist.clear()
    return lines


@pytest.fixture
def private_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_values_are_completed(shell, private_state):
    (private_state / "journal-of-mine").mkdir()
    with loaded(shell, private_state) as typist:
        completed(typist, "grainlike wor", "grainlike worker")
        completed(typist, "grainlike worker ", "start", "drain", "kill")
        completed(typist, "grainlike worker start --res", "--resources")
        completed(typist, "grainlike jobs --", "--ended", "--failed", "--most")
        completed(typist, "grainlike worker start --log-level ", "debug", "info", "warning", "error")
        completed(typist, "grainlike worker start --log-level=wa", "--log-level=warning")
        completed(typist, "grainlike --version lo", "grainlike --version logs")
        completed(typist, "grainlike journal check jour", "journal-of-mine/")
        completed(typist, "grainlike head start --journal jour", "journal-of-mine/")
        completed(typist, "grainlike submit -r mem", "submit -r memory=")
        completed(typist, 'grainlike submit -r "cores=4 mem', "cores=4 memory=")
        completed(typist, "grainlike submit -r cores=1 -- journal-of-mi", "-- journal-of-mi")
        completed(typist, "grainlike submit -r cores=1 -- ls jour", "-- ls journal-of-mine/")
        completed(typist, "grainlike up slu", "grainlike up slurm")
        completed(typist, "grainlike completion f", "grainlike completion fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_head_nothing_is_offered_and_nothing_is_said(shell, private_state):
    with loaded(shell, private_state) as typist:
        typist.press("grainlike cancel \tx")
        lines = typist.until(lambda lines: any(line.endswith("grainlike cancel x") for line in lines))
        assert len(lines) <= 2  # a prompt may have a line of its own


async def forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.asyncio
@pytest.mark.parametrize("shell", SHELLS)
async def test_what_a_head_knows_is_completed(shell, private_state):
    waits = delayed(forever, name="waits-long")

    def at_terminal(worker, job):
        with loaded(shell, private_state) as typist:
            completed(typist, "grainlike cancel ", f"grainlike cancel {job}")
            completed(typist, "grainlike explain ", f"grainlike explain {job}")
            completed(typist, f"grainlike worker drain {worker[:3]}", f"grainlike worker drain {worker}")
            completed(typist, "grainlike sessions end sw", "grainlike sessions end sweep-of-mine")
            completed(typist, "grainlike submit -r lic", "submit -r licence=")

    async with Executor(local=Cores(2) & Resource("licence", 1), listen="tcp://127.0.0.1:0") as executor:
        job_ = (waits @ Cores(1))()
        start(job_)
        async with connect(session="sweep-of-mine"):
            (worker,) = executor.workers()
            job = await the_number(executor, job_)
            await asyncio.to_thread(at_terminal, worker.name, job)
        cancel(job_)


async def the_number(executor, job_):
    """The number of a job, as soon as it has one."""

    async def number():
        return (await executor.explain(job_)).job

    return await until(number)


@pytest.mark.parametrize("kind", ["job", "any-job", "worker", "pool", "block", "session", "nonsense", "head"])
def test_values_without_a_head_are_none_and_no_error(kind, private_state, capsys):
    assert main(["completion", "values", kind]) == 0
    assert main(["completion", "values", kind, "--head", "tcp://127.0.0.1:1", "--insecure"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_head_that_never_answers_is_given_up(private_state, capsys, monkeypatch):
    monkeypatch.setattr(_values, "LIMIT_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = parse_address(f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        publish_access(accesses_for("silent", (address,), make_credentials("silent")))
        assert main(["completion", "values", "job"]) == 0
    assert capsys.readouterr() == ("", "")
