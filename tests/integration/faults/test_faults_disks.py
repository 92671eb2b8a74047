"""The disk below a head's journal: read-only from the start, full when the work ends; and its port taken meanwhile."""

import asyncio
import logging
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S
from mounts import may_mount, with_mount

from grainlike import Cores, connect, delayed, start
from grainlike.errors import JournalError
from grainlike.head.durable import HeadDaemon, _store

pytestmark = pytest.mark.asyncio

ROOT = Path(__file__).parents[3]
TLS = "tcp://127.0.0.1:0"


async def head_on(mounted, options, folder):
    """`head start` with a journal on a file system that only it sees; its exit code, and what it said."""
    head = (sys.executable, "-m", "grainlike", "head", "start", "--listen", TLS, "--journal", str(folder))
    process = await asyncio.create_subprocess_exec(
        *with_mount(f'-t tmpfs {options} none "{mounted}"', *head),
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    return process.returncode, said.decode()


@pytest.mark.skipif(not may_mount(), reason="takes a mount of one's own")
@pytest.mark.parametrize("options", ["-o ro,mode=700", "-o mode=700,size=4k,nr_inodes=1"], ids=["read-only", "full"])
async def test_a_head_does_not_begin_where_its_journal_cannot_be_written(options, private_state, tmp_path):
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    code, said = await head_on(mounted, options, mounted / "journal")
    assert code == 3
    assert "Read-only file system" in said or "No space left on device" in said
    assert len(said.splitlines()) == 1, said
    assert not list(private_state.glob("*/*.json"))


@pytest.fixture
def no_room(no_short_bytecode):
    """Let no file grow beyond so many bytes: `no_room(bytes)`; `no_room(None)` takes that back."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited if size is None else (size, unlimited[1]))

    yield limit
    limit(None)


@pytest.mark.parametrize("in_time", [True, False], ids=["room in time", "no room"])
async def test_an_end_that_the_disk_refuses_is_told_unless_it_takes_an_image(in_time, no_room, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "LOOK_S", 3600)  # nobody tries again but at the end
    journal = tmp_path / "journal"
    daemon = HeadDaemon(TLS, journal=journal)
    async with asyncio.timeout(LIMIT_S):
        await daemon.__aenter__()
        async with connect(session="night") as client:
            start((delayed(abs) @ Cores(1))(-1))
            await client.explain(client.name("long", (delayed(abs) @ Cores(1))(-2)))
        no_room(next(journal.glob("*.log")).stat().st_size)
        daemon.head.tick()
        assert daemon._journal.files.failure is not None
        if in_time:
            no_room(None)
            await daemon.__aexit__(None, None, None)
        else:
            with pytest.raises(JournalError, match=r"the end of the work is not in the journal.*finds the jobs again"):
                await daemon.__aexit__(None, None, None)
            no_room(None)
        async with HeadDaemon(TLS, journal=journal) as again:
            assert again.head.view.unended == (0 if in_time else 2)


async def test_the_log_of_a_full_disk_has_no_traceback(no_room, tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.setattr(_store, "LOOK_S", 3600)  # nobody tries again but at the end
    handler = logging.StreamHandler()  # a child writes the image, of whose log pytest sees nothing
    monkeypatch.setattr(_store.logger, "handlers", [*_store.logger.handlers, handler])
    daemon = HeadDaemon(TLS, journal=tmp_path / "journal")
    async with asyncio.timeout(LIMIT_S):
        await daemon.__aenter__()
        async with connect(session="night") as client:
            await client.explain(client.name("long", (delayed(len) @ Cores(1))(b"x" * 20_000)))
        no_room(10_000)  # less than an image has, and more than is logged
        with pytest.raises(JournalError):
            await daemon.__aexit__(None, None, None)
        no_room(None)
    said = capfd.readouterr().err
    assert "an image of the head could not be written: cannot write" in said
    assert "has failed: the end of the work is not in the journal" in caplog.text
    assert "Traceback" not in said + caplog.text


async def test_a_head_whose_port_is_taken_meanwhile_says_so_and_listens_at_another(tmp_path, caplog):
    journal = tmp_path / "journal"
    async with HeadDaemon(TLS, journal=journal) as daemon:
        port = int(daemon.address.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        async with HeadDaemon(TLS, journal=journal) as again:
            assert again.address != daemon.address
            async with connect() as client:
                assert client.address == again.address
        assert f"this head listened at port {port}" in caplog.text
        assert "needs new ones" in caplog.text
        with pytest.raises(OSError, match=f"cannot listen at tcp://127.0.0.1:{port}: Address already in use"):
            async with HeadDaemon(daemon.address, journal=journal):
                pass
    async with HeadDaemon(daemon.address, journal=journal) as back:
        assert back.address == daemon.address
