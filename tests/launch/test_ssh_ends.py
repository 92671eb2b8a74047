"""Ends of blocks by a real sshd that nobody asked for: killed scripts, machines and heads; and tunnels."""

import asyncio
import itertools
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from limits import LIMIT_S
from ssh_pools import (
    Gate,
    HeadProgram,
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
from waiting import until, until_called, until_files

from grainlike import Cores, LaunchError, cancel, start
from grainlike.head.fleet import FleetDriver

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


def script_of(machine):
    """Return the process of the only block's script."""
    return first_of(pid for pid, words in machine.processes().items() if words.startswith("bash -l "))


def worker_of(machine):
    """Return the process of the only block's worker."""
    return first_of(pid for pid, words in machine.processes().items() if "-m grainlike_worker --head" in words)


def first_of(pids):
    """Return the process that is no child of the others: a child has its words until it executes a program."""
    found, firsts = set(pids), []
    for pid in found:
        with suppress(psutil.NoSuchProcess):  # such a child, which has ended
            if found.isdisjoint(process.pid for process in psutil.Process(pid).parents()):
                firsts.append(pid)
    (first,) = firsts
    return first


# --- blocks ----------------------------------------------------------------------------------------------------------


async def test_a_block_whose_script_is_killed_lives_as_its_worker_does_and_leaves_nothing(ssh, gate):
    n1 = ssh.add("n1")
    async with opened(ssh_pool(ssh, n1)) as executor:
        job = start(gate.job())
        await gate.until_started()
        os.kill(script_of(n1), signal.SIGKILL)
        await until(lambda: [pid for pid, words in n1.processes().items() if words.startswith("bash -l ")] == [])
        listed = itertools.count()
        await until_called(FleetDriver, "_list", lambda: next(listed) >= 3)
        assert len(n1.blocks()) == 1, "it is not taken for ended"
        gate.open()
        assert await job == "n1"
        assert [row.state for row in executor.blocks()] == ["up"]
    assert await left_on(n1) == []


@pytest.mark.parametrize("whom", ["worker", "all"])
async def test_a_block_that_is_killed_is_replaced_and_leaves_nothing(ssh, gate, whom):
    n1 = ssh.add("n1")
    async with opened(ssh_pool(ssh, n1)) as executor:
        job = start(gate.job())
        await gate.until_started()
        victims = [worker_of(n1)] if whom == "worker" else [script_of(n1), worker_of(n1)]
        (before,) = n1.blocks()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        await gate.until_started(attempts=2)
        assert not before.exists(), "its access file, too"
        gate.open()
        assert await job == "n1"
        (over,) = ended(executor)
        assert (over.label, over.reason) == ("ssh-1", "exit code 137" if whom == "worker" else "it was killed")
        assert [row.label for row in executor.blocks()] == ["ssh-2"]
    assert await left_on(n1) == []


async def test_blocks_that_end_early_pause_their_pool_with_the_end_of_their_log_and_leave_nothing(ssh, monkeypatch):
    monkeypatch.setattr("grainlike.fleet._endings.HOLD_S", 0.1)
    n1 = ssh.add("n1")
    async with opened(ssh_pool(ssh, n1, setup=["echo the disk is gone", "exit 5"])) as executor:
        job = start((where @ Cores(1))())
        await until(lambda: executor.pools() and pool_row(executor).paused)
        await until(lambda: "the disk is gone" in pool_row(executor).paused)
        assert "3 blocks in a row ended before a worker joined" in pool_row(executor).paused
        await until_nothing_is_left(n1)
        words = (sys.executable, "-m", "grainlike", "blocks", "log", "ssh-3")
        assert "the disk is gone" in await run_words(*words), "its end outlives it"
        await executor.up(ssh_pool(ssh, n1), name="ssh")
        assert await job == "n1"
    assert await left_on(n1) == []


# --- machines --------------------------------------------------------------------------------------------------------


async def test_a_machine_that_dies_is_replaced_by_another_and_cleaned_when_it_is_back(ssh, gate, monkeypatch):
    monkeypatch.setattr("grainlike.launch._machines.LOST_S", 1.0)
    monkeypatch.setattr("grainlike.launch._machines.ASIDE_S", 1.0)
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    async with opened(ssh_pool(ssh, n1, n2, max=1)) as executor:
        job = start(gate.job())
        await gate.until_started()
        ssh.kill(n1)
        await gate.until_started(attempts=2)
        (over,) = ended(executor)
        assert over.label == "ssh-1"
        assert over.reason.startswith("n1: ssh: connect to host")
        await until(lambda: [row.nodes for row in executor.blocks()] == ["n2"])
        assert n1.files() != []
        ssh.start(n1)
        await until_nothing_is_left(n1)
        gate.open()
        assert await job == "n2"
    assert await left_on(n1, n2) == []


# --- heads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(ssh):
    """Home directory of the head's machine, with the user's own ssh configuration."""
    made = ssh.folder / "home"
    (made / ".ssh").mkdir(parents=True, mode=0o700)
    (made / ".ssh" / "config").symlink_to(ssh.config)
    return made


async def blocks_up(head):
    """Return the rows of a head's blocks, if all of them are up, and have their workers: the next head has their state
    from the records.
    """
    rows = json.loads(await head.command("blocks", "--json") or "[]")
    return rows if rows and all((row["state"], row["workers"]) == ("up", 1) and row["native"] for row in rows) else None


async def test_a_head_that_is_killed_leaves_no_process_and_no_file(ssh, home):
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    head = HeadProgram(ssh, home)
    async with asyncio.timeout(LIMIT_S):
        await head.start()
        await head.command("up", "ssh", "-n", "2", "--hosts", "n[1-2]", "--resources", "cores=1", "--wait")
        assert all("-m grainlike_worker" in " ".join(machine.processes().values()) for machine in (n1, n2))
        await head.kill()
        await until_nothing_is_left(n1, n2)


async def test_a_head_that_is_killed_within_ssh_finds_the_block_and_later_its_worker(ssh, home, tmp_path):
    n1, n2 = ssh.add("n1"), ssh.add("n2")
    began, killed = tmp_path / "began", tmp_path / "killed"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text(
        '#!/bin/sh\ncat >"$0.$$"\n'
        f'if ! grep -q submission "$0.$$" || [ -e {killed} ]; then exec /usr/bin/ssh "$@" <"$0.$$"; fi\n'
        f'/usr/bin/ssh "$@" <"$0.$$" >/dev/null; touch {began}; while ! [ -e {killed} ]; do sleep 0.1; done\n'
    )
    program.chmod(0o755)
    # The worker begins once the next head is there: one that finds no head ends.
    wait = f"while ! [ -e {tmp_path}/there ]; do sleep 0.1; done"
    pool = f'[pool.cpu]\nkind = "ssh"\nhosts = ["n[1-2]"]\nresources = "cores=1"\nsetup = ["{wait}"]\nmin = 1\n'
    (home / "grainlike.toml").write_text(pool)
    head = HeadProgram(ssh, home, "--journal", str(ssh.head / "journal"))
    head.path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    async with asyncio.timeout(LIMIT_S):
        await head.start()
        asking = asyncio.create_task(head.command("up", "cpu"))
        await until_files(tmp_path, began.exists)
        await head.kill()
        killed.touch()
        await head.start()
        (tmp_path / "there").touch()
        await asking
        [row] = await until(lambda: blocks_up(head))
        assert (row["label"], row["nodes"]) == ("cpu-1", "n1")
        assert [len(machine.blocks()) for machine in (n1, n2)] == [1, 0]
        worker = worker_of(n1)
        await head.kill()
        await head.start()
        [again] = await until(lambda: blocks_up(head))
        assert (again["label"], again["native"]) == ("cpu-1", row["native"])
        assert worker_of(n1) == worker
        assert [len(machine.blocks()) for machine in (n1, n2)] == [1, 0]
        await head.stop()
        assert await left_on(n1, n2) == []


# --- tunnels ---------------------------------------------------------------------------------------------------------


def tunnels_of(ssh, machine=""):
    """Return the processes that forward a port to machines of a test, found by their configuration or their port."""
    ports = []
    if machine:
        access = json.loads((ssh.machines[machine].blocks()[0] / "worker.json").read_text())
        ports = [f"127.0.0.1:{one.rpartition(':')[2]}:".encode() for one in access["addresses"]]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        ours = str(ssh.config).encode() in words or any(word.startswith(tuple(ports)) for word in words)
        if words[0] == b"ssh" and b"-R" in words and ours:
            found.append(int(folder.name))
    return found


async def test_a_machine_that_cannot_reach_the_head_does_by_a_tunnel(ssh, gate):
    far, near = ssh.add("far", far=True), ssh.add("n1")
    async with opened() as executor:
        pool = await executor.up(ssh_pool(ssh, far, tunnel=True, min=1), name="far")
        other = await executor.up(ssh_pool(ssh, near), name="near")
        (row,) = await until_up(executor, 1)
        assert row.nodes == "far"
        job = start(gate.job())
        await gate.until_started()
        (tunnel,) = tunnels_of(ssh)
        await until(lambda: "cat" in far.commands().values())  # the far end of the tunnel
        access = json.loads((far.blocks()[0] / "worker.json").read_text())
        assert [address.rpartition(":")[0] for address in access["addresses"]] == ["tcp://127.0.0.1"]
        os.kill(tunnel, signal.SIGKILL)
        await until(lambda: tunnels_of(ssh) not in ([], [tunnel]))
        gate.open()
        assert await job == "far"
        await other.down()
        await pool.down()
        assert await left_on(far, near) == []
        await until(lambda: tunnels_of(ssh) == [])


async def test_without_a_tunnel_it_does_not_and_its_log_says_so(ssh):
    far = ssh.add("far", far=True)
    async with opened(ssh_pool(ssh, far)) as executor:
        job = start((where @ Cores(1))())
        await until(lambda: executor.pools() and "its log ends" in pool_row(executor).why + pool_row(executor).paused)
        assert "tcp://127.0.0.1:" in pool_row(executor).why + pool_row(executor).paused
        cancel(job)


async def test_a_port_that_cannot_be_forwarded_is_told_at_the_prompt(ssh):
    n1 = ssh.add("n1")  # where the head's port is taken by the head itself
    async with opened() as executor:
        with pytest.raises(LaunchError, match=r"n1: tunnel: .*remote port forwarding failed"):
            await executor.up(ssh_pool(ssh, n1, tunnel=True, min=1), name="cpu")
        assert await left_on(n1) == []
        assert tunnels_of(ssh) == []


async def test_tunnels_come_back_with_the_next_head(ssh, home):
    far = ssh.add("far", far=True)
    (home / "grainlike.toml").write_text(
        '[pool.far]\nkind = "ssh"\nhosts = ["far"]\nresources = "cores=1"\ntunnel = true\nmin = 1\n'
    )
    head = HeadProgram(ssh, home, "--journal", str(ssh.head / "journal"))
    head.folder = home
    async with asyncio.timeout(LIMIT_S):
        await head.start()
        await head.command("up", "far", "--wait")
        [row] = await until(lambda: blocks_up(head))
        worker = worker_of(far)
        await head.kill()
        for pid in tunnels_of(ssh, "far"):  # while the worker dials by it, the one of before may stay
            os.kill(pid, signal.SIGKILL)
        await until(lambda: tunnels_of(ssh, "far") == [])
        await head.start()
        [again] = await until(lambda: blocks_up(head))
        assert (again["native"], worker_of(far)) == (row["native"], worker)
        await head.stop()
        assert await left_on(far) == []
