"""Commands and programs use what the settings say, where they are not told otherwise."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Executor, connect


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with access files of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(folder: Path, text: str) -> None:
    path = folder / "grainlike.toml"
    path.write_text(text)
    path.chmod(0o600)


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A command of ours, until it is interrupted."""
    command = [sys.executable, "-m", "grainlike", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT_S)


@pytest.mark.parametrize(("words", "host"), [((), "127.0.0.1"), (("--listen", "tcp://127.0.0.2:0"), "127.0.0.2")])
@pytest.mark.asyncio
async def test_a_head_listens_where_the_settings_say_unless_it_is_told(
    folder: Path, words: tuple[str, ...], host: str
) -> None:
    settings(folder, '[head]\nlisten = "tcp://127.0.0.1:0"\njournal = "kept"\n')
    with started("head", "start", *words) as head:
        assert head.stdout is not None
        said = await asyncio.to_thread(head.stdout.readline)
        assert said.startswith(f"head at tcp://{host}:")
        assert (folder / "kept" / "access" / "head.json").exists()


@pytest.mark.asyncio
async def test_a_worker_offers_what_the_settings_say_to_their_head(folder: Path) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        access = folder / "state" / "grainlike" / "current" / "worker.json"
        settings(folder, f'[worker]\nhead = "{access}"\nresources = "cores=1 licence=3"\nstore = "8Mi"\n')
        with started("worker", "start", "--name", "n1"):
            await until(lambda: bool(executor.workers()))
            (worker,) = executor.workers()
            assert worker.store == 8 << 20
            assert str(worker.resources.request) == "cores=1 licence=3"


@pytest.mark.asyncio
async def test_a_program_connects_to_the_head_of_the_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as first:
        access = (folder / "state" / "grainlike" / "current").resolve() / "client.json"
        async with Executor(local=None, listen="tcp://127.0.0.1:0") as second:
            async with connect() as found:
                assert found.address == second.address, "the current head is the last one"
            monkeypatch.setenv("GRAINLIKE_CLIENT__HEAD", str(access))
            async with connect() as found:
                assert found.address == first.address


def test_wrong_settings_are_wrong_usage(folder: Path) -> None:
    settings(folder, "[head]\nlistn = 1\n")
    for words in (("head", "start"), ("ls",), ("config", "show")):
        done = subprocess.run(
            [sys.executable, "-m", "grainlike", *words], capture_output=True, text=True, check=False, env=os.environ
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(
            f"grainlike: {folder}/grainlike.toml: [head] listn: there is no such key; did you mean"
        )


def test_settings_are_shown_with_their_origins(folder: Path) -> None:
    settings(folder, '[pool.cpu]\nkind = "slurm"\nwalltime = 60\nsetup = ["module load x"]\n[head]\nrecord = true\n')
    done = subprocess.run(
        [sys.executable, "-m", "grainlike", "config", "show", "--origin"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "GRAINLIKE_WORKER__IDLE": "0:10:00"},
    )
    path = folder / "grainlike.toml"
    assert done.stdout == (
        f"[head]\nrecord = true  # {path}\n\n"
        f'[worker]\nidle = "0:10:00"  # GRAINLIKE_WORKER__IDLE\n\n'
        f'[pool.cpu]\nkind = "slurm"             # {path}\nwalltime = 60              # {path}\n'
        f'setup = ["module load x"]  # {path}\n'
    )
