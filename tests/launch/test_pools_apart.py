"""Pools on nodes that are apart, each with an address, a host name and directories of its own."""

import asyncio
import json
import shutil
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from limits import LIMIT_S
from slurm_apart import SlurmApart, missing_tools
from slurm_here import missing
from slurm_pools import HeadProgram
from waiting import until

pytestmark = [pytest.mark.asyncio]

EVERYWHERE = "tcp://0.0.0.0:0"


@pytest.fixture(scope="module")
def apart():
    """Slurm on two nodes, of which the second does not have the home directory of the first."""
    if missing() or missing_tools():
        pytest.fail(f"{', '.join([*missing(), *missing_tools()])} not installed", pytrace=False)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    try:
        with SlurmApart(folder) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def a_head(apart, tmp_path, monkeypatch, *, listen):
    """Head beside the controller, with its state in the home directory, and a pool on one of the nodes."""
    monkeypatch.setenv("SLURM_CONF", apart.environment["SLURM_CONF"])
    monkeypatch.setenv("XDG_STATE_HOME", str(apart.home / tmp_path.name))
    head = HeadProgram(tmp_path / "journal", *apart.here, listen=listen)
    async with asyncio.timeout(LIMIT_S):
        await head.start()
        try:
            yield head
            await head.stop()
            assert apart.say("squeue", "-h") == ""
        finally:
            if head.process.returncode is None:
                await head.kill()


async def up(head, node):
    """Bring up a pool of one worker on this node."""
    words = ("-n", "1", "--resources", "cores=1", "--walltime", "0:05:00")
    await head.command("up", "slurm", *words, "--", f"--nodelist={node}")


async def until_paused(head):
    """Return why the only pool is paused, once it is and the log of its last block, which is read then, has told."""

    async def why():
        (pool,) = json.loads(await head.command("pools", "--json"))
        return pool["paused"] if " log" in pool["paused"] else ""

    return await until(why)


PROGRAM = """\
import asyncio, json, os, socket, sys
from pathlib import Path
from grainlike import Cores, connect, delayed

@delayed
def there(folder):
    (Path(folder) / "written-there").touch()
    return socket.gethostname(), os.environ["SLURMD_NODENAME"]

async def main():
    async with connect() as executor:
        print(json.dumps(await (there @ Cores(1))(sys.argv[1])))

asyncio.run(main())
"""


async def test_a_worker_of_a_node_that_is_apart_joins_over_the_network(apart, tmp_path, monkeypatch):
    async with a_head(apart, tmp_path, monkeypatch, listen=EVERYWHERE) as head:
        await up(head, "n1")

        async def joined():
            return json.loads(await head.command("ls", "--json"))

        (worker,) = await until(joined)
        assert worker["host"] == "host-n1"
        program = (*apart.here, sys.executable, "-c", PROGRAM, str(apart.local))
        process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        assert json.loads(out) == ["host-n1", "n1"]
        assert list(apart.local.iterdir()) == [], "what it wrote is on the node alone"


async def test_a_head_that_nodes_do_not_reach_pauses_its_pool_with_what_each_address_said(apart, tmp_path, monkeypatch):
    async with a_head(apart, tmp_path, monkeypatch, listen="tcp://127.0.0.1:0") as head:
        await up(head, "n1")
        why = await until_paused(head)
        assert "3 blocks in a row ended before a worker joined" in why
        assert "127.0.0.1" in why
        assert "refused" in why


async def test_nodes_that_do_not_share_the_home_directory_pause_their_pool_with_that_question(
    apart, tmp_path, monkeypatch
):
    async with a_head(apart, tmp_path, monkeypatch, listen=EVERYWHERE) as head:
        await up(head, "n2")
        why = await until_paused(head)
        assert "ended without a log: is" in why
        assert f"{apart.home}" in why
        assert "shared with the nodes?" in why
