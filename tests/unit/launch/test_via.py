"""Clients behind a command, as by a login node: what they deliver there, and that they take it back.

The login node is a directory that a program makes the home directory of what it runs; its `sbatch` and `squeue` are
shell scripts.
"""

import os

import pytest
from limits import LIMIT_S

from grainlike.launch import PBS, LaunchContext, Slurm, _batch_client, client_of

pytestmark = pytest.mark.anyio

NAME = "gl1a2b3c4d-1"


class LoginNode:
    """Login node with programs of its own."""

    def __init__(self, folder):
        self.home = folder / "login"
        (self.home / "bin").mkdir(parents=True)
        self.via = folder / "via"
        self.of(self.via, f'HOME={self.home} PATH="{self.home}/bin:$PATH"; export HOME PATH; cd; exec "$@"')

    def of(self, path, text):
        """Make a program."""
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def says(self, name, text):
        """Have a program there do this; return its path."""
        self.of(self.home / "bin" / name, text)
        return self.home / "bin" / name

    @property
    def block(self):
        """Directory of the block there."""
        return self.home / ".local/state/grainlike/blocks" / NAME


@pytest.fixture
def login(tmp_path):
    """A login node."""
    return LoginNode(tmp_path)


@pytest.fixture
def context(tmp_path):
    """Context of a head's clients."""
    access = tmp_path / "worker.json"
    access.write_text("a secret")
    return LaunchContext(tmp_path / "state", access, "1a2b3c4d")


@pytest.fixture
def client(login, context):
    """Client of the Slurm there."""
    return client_of(Slurm("cores=1", walltime=60, via=str(login.via)), context)


async def test_a_taken_block_has_its_files_there_and_a_refused_one_has_none(login, client):
    login.says("sbatch", "echo 77")
    assert (await client.submit(NAME, "cpu-1")).answer.native == "77"
    assert {path.name for path in login.block.iterdir()} == {"worker.json", "script"}
    assert {oct(path.stat().st_mode)[-3:] for path in login.block.iterdir()} == {"600"}
    for words in ("invalid partition specified: x", "QOSMaxSubmitJobPerUserLimit"):
        login.says("sbatch", f"echo 'sbatch: error: {words}' >&2; exit 1")
        assert (await client.submit(NAME, "cpu-1")).answer.verdict in ("refused", "waits")
        assert not login.block.exists()


async def test_one_without_a_clear_answer_keeps_its_files_for_it_may_have_been_taken(login, client):
    login.says("sbatch", "echo 'Socket timed out on send/recv operation' >&2; exit 1")
    assert (await client.submit(NAME, "cpu-1")).answer.verdict == "unclear"
    assert (login.block / "worker.json").exists()


async def test_one_that_is_not_listed_yet_keeps_them_until_it_is_looked_for_again(login, client, monkeypatch):
    monkeypatch.setattr(_batch_client, "UNCLEAR_S", LIMIT_S)
    login.says("squeue", "true")
    login.says("sbatch", "echo 'Socket timed out on send/recv operation' >&2; exit 1")
    assert (await client.submit(NAME, "cpu-1")).answer.verdict == "unclear"
    assert not (await client.listing()).failed
    assert (login.block / "worker.json").exists()
    monkeypatch.setattr(_batch_client, "UNCLEAR_S", 0.0)
    await client.submit(NAME, "cpu-1")
    await client.listing()
    assert not (login.block / "worker.json").exists()


async def test_what_could_not_be_taken_back_is_removed_later(login, client):
    login.says("squeue", "true")
    login.says("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    remove = login.says("rm", "exit 1")
    assert (await client.submit(NAME, "cpu-1")).answer.verdict == "refused"
    assert (login.block / "worker.json").exists()
    remove.unlink()
    await client.listing()
    assert not (login.block / "worker.json").exists()


async def test_pools_of_one_system_remove_what_blocks_of_either_have_left(login, client, context):
    login.says("sbatch", "echo 77")
    await client.submit(NAME, "cpu-1")
    other = client_of(Slurm("cores=2", walltime=60, via=str(login.via)), context)
    login.says("squeue", "true")
    await other.listing()
    assert not (login.block / "worker.json").exists()


async def test_the_access_file_of_a_block_that_has_ended_is_removed_and_its_log_stays(login, client):
    login.says("sbatch", "echo 77")
    await client.submit(NAME, "cpu-1")
    (login.block / "log").write_text("the end\n")
    login.says("squeue", f"echo '77|{NAME}|RUNNING|0:50|None|n1|N/A'")
    assert [row.name for row in (await client.listing()).blocks] == [NAME]
    assert (login.block / "worker.json").exists()
    login.says("squeue", "exit 1")
    assert (await client.listing()).failed
    assert (login.block / "worker.json").exists()
    login.says("squeue", ":")
    assert not (await client.listing()).failed
    assert not (login.block / "worker.json").exists()
    assert await client.read_log(NAME) == "the end\n"


async def test_so_is_that_of_a_block_of_an_earlier_head(login, client):
    login.block.mkdir(parents=True)
    (login.block / "worker.json").write_text("a secret")
    client.remember([(NAME, "77", "n1")])
    login.says("squeue", ":")
    await client.listing()
    assert not (login.block / "worker.json").exists()


async def test_what_is_shown_of_a_pool_behind_a_command_is_what_is_delivered(login, client):
    login.says("sbatch", "echo 77")
    said = await client.submit(NAME, "slurm-1")
    assert client.pool.script().replace("gl00000000-1", NAME) == said.script
    assert os.fspath(login.home) not in said.script
    assert "--head .local/state/grainlike/blocks/gl1a2b3c4d-1/worker.json" in said.script


async def test_its_script_and_log_are_read_there(login, client):
    login.says("sbatch", "echo 77")
    await client.submit(NAME, "cpu-1")
    (login.block / "log").write_text("joined\nleft\n")
    assert (await client.read_part(NAME, "log", 7)).text == "left\n"
    script = await client.read_part(NAME, "script", 0)
    assert (script.text, script.why) == ((login.block / "script").read_text(), "")
    (login.block / "log").unlink()
    why = (await client.read_part(NAME, "log", 0)).why
    assert why.startswith(f"{login.via}: ")
    assert f".local/state/grainlike/blocks/{NAME}/log" in why


@pytest.mark.parametrize(
    ("words", "code", "hopeless"),
    [
        ("sbatch: error: invalid partition specified: x", 1, True),
        ("allocation failure: Requested time limit is invalid (missing or exceeds some limit)", 1, True),
        ("allocation failure: Requested node configuration is not available", 1, False),
        ("sbatch: error: AssocMaxSubmitJobLimit", 1, False),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", 1, False),
        ("sbatch: Job 1 to start", 0, False),
    ],
)
async def test_what_the_system_would_never_take_is_hopeless_and_what_waits_or_is_silent_is_not(
    login, words, code, hopeless
):
    login.says("sbatch", f'[ "$1" = --test-only ] || exit 9; echo "{words}" >&2; exit {code}')
    refusal = await Slurm("cores=1", walltime=60, via=str(login.via)).hopeless()
    assert (refusal is not None) == hopeless
    assert refusal is None or words in refusal.words


async def test_a_system_that_has_no_question_is_not_asked(login):
    asked = login.home / "asked"
    login.says("qsub", f"touch {asked}; echo qsub: Unknown queue >&2; exit 1")
    assert await PBS("cores=1", walltime=60, via=str(login.via)).hopeless() is None
    assert not asked.exists()
