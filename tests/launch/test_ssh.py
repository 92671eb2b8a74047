"""Pools of machines by a real sshd: how they start, what becomes of machines that fail, and that nothing is left."""

import asyncio
import itertools
import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from limits import LIMIT_S
from ssh_pools import (
    Gate,
    ended,
    left_on,
    opened,
    pool_row,
    run_words,
    ssh_pool,
    until_nothing_is_left,
    until_up,
    where,
)
from waiting import until, until_called

from grainlike import Cores, LaunchError, start
from grainlike.dialects import BlockRequest, SSHDialect
from grainlike.fleet import FleetScheduler
from grainlike.head.fleet import FleetDriver
from grainlike.launch import BatchClient
from grainlike.launch._native import run_native

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def private_state(ssh, monkeypatch):
    """The head's files are where no machine sees them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(ssh.head))


@pytest.fixture(autouse=True)
def often_listed(monkeypatch):
    """Machines are asked every second: what follows from a listing is tried here, not how long one waits for it.
    Heads that close wait until nothing is left, however long that takes.
    """
    for name in ("YOUNG_PERIOD_S", "PERIOD_S", "LEAVING_PERIOD_S"):
        monkeypatch.setattr(f"grainlike.fleet._listing.{name}", 1.0)
    monkeypatch.setattr("grainlike.head.fleet._driver.CLOSE_S", LIMIT_S)


@pytest.fixture
def gate(tmp_path):
    """Gate at which jobs wait."""
    return Gate(tmp_path / "gate")


def mode(path):
    """Return the mode of a file, as `600`."""
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def environment_of(pid):
    """Return the environment of a process, as text."""
    return Path(f"/proc/{pid}/environ").read_text()


# --- up and down -----------------------------------------------------------------------------------------------------


async def test_two_machines_without_a_directory_of_the_heads_join_and_keep_nothing(ssh, gate):
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    asked = ssh_pool(ssh, n1, n2, resources="cores=2 memory=500Mi token=cpu", min=2)
    async with opened() as executor:
        pool = await executor.up(asked, name="cpu")
        rows = await until_up(executor, 2)
        assert [(row.label, row.nodes) for row in rows] == [("cpu-1", "n1"), ("cpu-2", "n2")]
        assert [row.native.partition("@")[2] for row in rows] == ["n1", "n2"]
        for worker in executor.workers():
            assert worker.resources.units == {**asked.offer.units}
        jobs = [start(gate.job(number)) for number in range(4)]
        await asyncio.gather(*map(gate.until_started, range(4)))
        for machine in (n1, n2):
            assert "worker.json" not in ssh.on(machine, "find", str(ssh.head)), "the head's files are not seen there"
            (folder,) = machine.blocks()
            assert (mode(folder), {mode(path) for path in folder.iterdir()}) == ("700", {"600"})
            assert {path.name for path in folder.iterdir()} == {"script", "log", "pid", "worker.json"}
        gate.open()
        assert sorted([await job for job in jobs]) == ["n1", "n1", "n2", "n2"]
        await pool.down()
        assert await left_on(n1, n2) == []
        assert executor.pools() == executor.blocks() == []
        assert {(row.label, row.reason) for row in ended(executor)} == {
            (f"cpu-{number}", "the pool is taken down") for number in (1, 2)
        }


async def test_ten_jobs_have_two_blocks_at_most_which_end_when_they_are_idle(ssh, gate, monkeypatch):
    n1, n2, n3 = (ssh.add(name) for name in ("n1", "n2", "n3"))
    most = []
    shown = FleetDriver._show

    def watched(self):
        most.append(len([name for machine in (n1, n2, n3) for name in machine.blocks()]))
        return shown(self)

    monkeypatch.setattr(FleetDriver, "_show", watched)
    async with opened(ssh_pool(ssh, n1, n2, n3, max=2, idle=1)) as executor:
        jobs = [start(gate.job(number)) for number in range(10)]
        await until_up(executor, 2)
        counts = itertools.count()
        await until_called(FleetDriver, "_count", lambda: next(counts) >= 3)
        await gate.until_on(2)
        gate.open()
        assert {await job for job in jobs} == {"n1", "n2"}
        await until(lambda: not executor.blocks())
        assert await left_on(n1, n2, n3) == []
        assert {row.reason for row in ended(executor)} == {"idle for 1 s"}
        assert max(most) == 2


async def test_what_is_shown_before_is_what_is_delivered(ssh):
    n1 = ssh.add("n1")
    pool = ssh_pool(ssh, n1, min=1)
    words = ("up", "ssh", "--hosts", "n1", "--resources", "cores=1", "--dry", "--json", "--", *ssh.native())
    shown = json.loads(await run_words(sys.executable, "-m", "grainlike", *words))
    assert shown["taken"]
    assert str(ssh.head) not in shown["script"]
    async with opened(pool) as executor:
        await until_up(executor)
        (folder,) = n1.blocks()
        there = (folder / "script").read_text()
        assert pool.script().replace("gl00000000-1", folder.name) == there
        assert shown["script"].replace("gl00000000-1", folder.name) == there
    assert await left_on(n1) == []


async def test_log_and_script_of_a_block_are_asked_of_its_machine(ssh):
    n1 = ssh.add("n1")

    async def blocks(*words):
        return await run_words(sys.executable, "-m", "grainlike", "blocks", *words)

    async with opened() as executor:
        pool = await executor.up(ssh_pool(ssh, n1, min=1), name="cpu")
        await until_up(executor)
        (folder,) = n1.blocks()
        assert await blocks("script", "cpu-1") == (folder / "script").read_text()
        await until(lambda: "joined cluster" in (folder / "log").read_text())
        assert "joined cluster" in await blocks("log", "cpu-1")
        await pool.down()
        assert await left_on(n1) == []
        assert await blocks("script", "cpu-1") == "", "it went with its block"


async def test_who_asks_before_is_told_what_each_machine_says_and_one_is_enough(ssh):
    n1, down, refuses = ssh.add("n1"), ssh.add("down", up=False), ssh.add("refuses", key="other_key")
    said = (await ssh_pool(ssh, n1, down, refuses).check()).splitlines()
    assert [line.partition(":")[0] for line in said] == ["n1", "down", "refuses"]
    assert said[0] == "n1: it lets us in"
    assert said[1].endswith("Connection refused")
    assert said[2].endswith("Permission denied (publickey).")
    with pytest.raises(LaunchError, match=r"(?s)down: .*Connection refused\nrefuses: .*Permission denied") as caught:
        await ssh_pool(ssh, down, refuses).check()
    assert caught.value.command[-1] == "true"
    assert await left_on(n1, refuses) == []


async def test_no_key_and_no_secret_of_the_head_is_where_others_could_read_it(ssh, gate, tmp_path, monkeypatch):
    n1 = ssh.add("n1")
    (tmp_path / "bin").mkdir()
    program, told = tmp_path / "bin" / "ssh", tmp_path / "told"
    program.write_text(f'#!/bin/sh\n{{ env; echo "$@"; }} >>{told}\nexec /usr/bin/ssh "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("MY_SECRET", "swordfish")
    async with opened(ssh_pool(ssh, n1)) as executor:
        job = start(gate.job())
        await gate.until_started()
        (folder,) = n1.blocks()
        assert "PRIVATE KEY" in (folder / "worker.json").read_text()
        seen = [told.read_text(), (folder / "script").read_text(), (folder / "log").read_text()]
        for pid, words in n1.processes().items():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                seen += [words, environment_of(pid)]
        assert len(seen) > 6, "script, worker and runner"
        for text in seen:
            assert "BEGIN" not in text
            assert "swordfish" not in text
        gate.open()
        assert await job == "n1"
        assert executor.report().failed == 0


# --- machines that fail ----------------------------------------------------------------------------------------------


async def test_machines_that_are_down_or_refuse_the_key_leave_the_others_alone(ssh, gate):
    down, refuses = ssh.add("down", up=False), ssh.add("refuses", key="other_key")
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    async with opened() as executor:
        pool = await executor.up(ssh_pool(ssh, down, refuses, n1, n2), name="cpu")
        jobs = [start(gate.job(number)) for number in range(8)]
        rows = await until_up(executor, 2)
        assert sorted(row.nodes for row in rows) == ["n1", "n2"]
        told = ("Permission denied (publickey)", "down: ssh: connect to host 127.0.0.1 port", "Connection refused")
        await until(lambda: all(words in pool_row(executor).why for words in told))
        assert pool_row(executor).paused == ""
        await gate.until_on(2)
        gate.open()
        assert {await job for job in jobs} == {"n1", "n2"}
        await pool.down()
        assert await left_on(n1, n2) == []


async def test_a_machine_that_fails_between_fails_its_block_and_the_next_takes_another(ssh, monkeypatch):
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    keys = n1.authorized.read_text()
    submitted = BatchClient._say

    async def with_the_key_gone(self, command):
        if "submission" in command.stdin:
            n1.authorized.write_text("")
        return await submitted(self, command)

    monkeypatch.setattr(BatchClient, "_say", with_the_key_gone)
    async with opened() as executor:
        pool = await executor.up(ssh_pool(ssh, n1, n2, min=1, max=1), name="cpu")
        (row,) = await until_up(executor, 1)
        assert (row.label, row.nodes) == ("cpu-2", "n2")
        (failed,) = ended(executor)
        assert (failed.label, failed.native) == ("cpu-1", "")
        assert failed.reason.startswith("n1: ")
        assert failed.reason.endswith("Permission denied (publickey).")
        assert pool_row(executor).paused == ""
        n1.authorized.write_text(keys)
        await pool.down()
        assert await left_on(n1, n2) == []


async def test_a_pool_without_a_machine_that_could_be_tried_is_paused_until_one_is_mended(ssh):
    down, refuses = ssh.add("down", up=False), ssh.add("refuses", key="other_key")
    async with opened() as executor:
        asked = ssh_pool(ssh, down, refuses, min=1)
        with pytest.raises(LaunchError, match=r"(?s)down: .*Connection refused.*refuses: .*Permission denied"):
            await executor.up(asked, name="cpu")
        assert "Permission denied (publickey)" in pool_row(executor).paused
        refuses.authorized.write_text((ssh.folder / "key.pub").read_text())
        executor._service._service.launched.pause("cpu", on=False)
        (row,) = await until_up(executor, 1)
        assert row.nodes == "refuses"
        assert await (where @ Cores(1))() == "refuses"


async def test_a_pool_with_other_machines_is_not_told_what_those_before_have_said(ssh):
    down, n1 = ssh.add("down", up=False), ssh.add("n1")
    async with opened() as executor:
        driver = executor._service._service.fleet()
        assert await driver.up("cpu", ssh_pool(ssh, down)) == ("", "", "")
        await until_called(FleetScheduler, "handle", lambda: driver._records.system("ssh of cpu").failing)
        assert await driver.up("cpu", ssh_pool(ssh, n1)) == ("", "", "")


async def test_a_submission_during_a_slow_listing_keeps_its_machine(ssh, monkeypatch):
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    go, asked = asyncio.Event(), asyncio.Event()
    say = BatchClient._say
    slow = False

    async def say_slowly(self, command):
        said = await say(self, command)
        if slow and "listed all" in command.stdin and "n2" in command.argv:
            asked.set()
            await go.wait()
        return said

    monkeypatch.setattr(BatchClient, "_say", say_slowly)
    async with opened() as executor:
        await executor.up(ssh_pool(ssh, n1, n2, min=1), name="cpu")
        await until_up(executor, 1)
        slow = True
        await asked.wait()
        await executor.up(ssh_pool(ssh, n1, n2, min=2), name="cpu")
        go.set()
        slow = False
        rows = await until_up(executor, 2)
        assert [row.nodes for row in rows] == ["n1", "n2"]
        assert ended(executor) == []


# --- what several machines have in common ----------------------------------------------------------------------------


async def test_machines_that_share_a_home_directory_list_their_own_blocks(ssh, gate):
    n1 = ssh.add("n1")
    n2 = ssh.add("n2", home=n1.home)
    async with opened() as executor:
        pool = await executor.up(ssh_pool(ssh, n1, n2, min=2), name="cpu")
        jobs = [start(gate.job(number)) for number in range(2)]
        rows = await until_up(executor, 2)
        await asyncio.gather(*map(gate.until_started, range(2)))
        assert len(n1.blocks()) == 2
        listed = itertools.count()
        await until_called(FleetDriver, "_list", lambda: next(listed) >= 3)
        assert [row.nodes for row in executor.blocks()] == ["n1", "n2"]
        assert [row.native for row in executor.blocks()] == [row.native for row in rows]
        n2_processes = {pid for pid, words in n2.processes().items() if "grainlike" in words}
        executor._service._service.launched.end_block("cpu-1", at_once=True)
        await until(lambda: [row.label for row in executor.blocks() if row.label != "cpu-2"] == ["cpu-3"])
        await until_up(executor, 2)
        assert n2_processes <= set(n2.processes()), "the other one's block was let alone"
        gate.open()
        assert sorted([await job for job in jobs]) == ["n1", "n2"]
        await pool.down()
        assert await left_on(n1, n2) == []


def request_on(ssh, machine, name):
    """Return the request for a block of a name, whose script sleeps instead of starting a worker."""
    return BlockRequest(
        name=name,
        label="cpu-1",
        directory=f".local/state/grainlike/blocks/{name}",
        access="/nonexistent",
        python="python3",
        setup=("sleep 1000",),
        host=machine.name,
        native=tuple(ssh.native()),
    )


async def test_a_job_of_the_same_name_on_another_machine_is_ended(ssh):
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    async with opened() as executor:
        pool = await executor.up(ssh_pool(ssh, n1, n2, min=1, max=1), name="cpu")
        (row,) = await until_up(executor, 1)
        (folder,) = n1.blocks()
        command = SSHDialect().submit(request_on(ssh, n2, folder.name))
        said = await run_native(command, {"PATH": os.environ["PATH"]})
        assert SSHDialect().submitted(said).verdict == "accepted"
        await until_nothing_is_left(n2)
        assert [(one.label, one.native) for one in executor.blocks()] == [(row.label, row.native)]
        assert n1.processes()
        await pool.down()
