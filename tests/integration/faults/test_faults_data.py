"""Large values go from worker to worker by their data servers, and through the head where they cannot."""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from anyio import to_thread
from far import far_workers, head_of, replicas
from limits import LIMIT_S
from ports import free_port
from value_calls import make_random, size_of
from waiting import until
from weather import Weather, way_through
from weather import port as port_of

from grainlike import Executor, info, parse, start, wait
from grainlike.net import TcpAddress, find_access
from grainlike.wire import Gone, Want, encode_data, read_data
from grainlike_worker.data._reading import read_exactly
from grainlike_worker.data._tls import DataTls

pytestmark = pytest.mark.asyncio

SMALL, LARGE = 5_000_000, 50_000_000

ELSEWHERE = """
import grainlike_worker.daemon._data_process as d
made, d.PATIENCE_S, d.AGAIN_S = d.DataProcess.__init__, {patience}, 0.01
d.DataProcess.__init__ = lambda self, listener, address, setup: made(self, listener, {address!r} or address, setup)
"""
"""Code by which a worker says that its data server is elsewhere."""

QUICK = "import grainlike_worker.daemon._data_process as d; d.PATIENCE_S = 0.3"
"""Code by which a worker waits for others for a moment only."""


async def made_at(name: str, size: int):
    """A value that is made at this worker."""
    value_ = (make_random @ parse(f"cores=1 {name}=1"))(size)
    await wait(value_)
    assert info(value_).where == (name,)
    return value_


def used_at(name: str, value_):
    return (size_of @ parse(f"cores=1 {name}=1"))(value_)


def both(start_worker, *, first=None, more=()):
    """Two workers that share no memory, each with a resource of its name."""
    return far_workers(start_worker, "n1", "n2", resources="cores=2 {name}=2", first=first, more=more)


def same_bytes(executor: Executor) -> bool:
    homes = [Path(peer.hello.replicas) for peer in head_of(executor).peers.values()]
    (name,) = set(replicas(executor))
    one, other = ((home / name).read_bytes() for home in homes)
    return one == other


def data_servers(worker) -> list[psutil.Process]:
    return [one for one in worker.tree() if "grainlike_worker.data" in command_of(one)]


def command_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; nothing of one that has gone since it was listed."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def data_server(worker) -> psutil.Process:
    (process,) = data_servers(worker)
    return process


async def test_a_value_goes_from_worker_to_worker_and_to_nobody_else(start_worker):
    async with both(start_worker) as (executor, workers):
        assert not data_servers(workers["n1"])  # nobody has called
        a_ = await made_at("n1", SMALL)
        await strangers(executor)
        assert await used_at("n2", a_) == SMALL
        report = executor.report()
        assert (report.moved, report.relayed, report.fetched) == (info(a_).size, 0, 0)
        assert info(a_).where == ("n1", "n2")
        assert all(worker.data.startswith("tcp://127.0.0.1:") for worker in executor.workers())
        assert same_bytes(executor)
        servers = [data_server(worker).pid for worker in workers.values()]
        workers["n1"].process.kill()
        workers["n2"].process.terminate()
        await until(lambda: not any(map(psutil.pid_exists, servers)))
        del a_


# --- where data servers do not reach one another ---------------------------------------------------------------------


async def test_with_the_port_off_values_pass_the_head_which_grows_little(start_worker, tmp_path):
    """Also if they come faster than they go on."""
    off = ("--data", "off")
    first = "import grainlike.payload as p; p.memory_id = lambda: 'n2'"
    async with (
        far_workers(start_worker, "n1", resources="cores=2 n1=2", more=off) as (executor, _),
        Weather(port_of(executor)) as weather,
    ):
        way = way_through(weather, executor, tmp_path)
        start_worker(way, name="n2", resources="cores=2 n2=2", more=off, first=first)
        await executor.wait_for_workers(2)
        size = 200_000_000
        a_ = await made_at("n1", size)
        weather.hold_down(1_000_000)
        begin_peak_anew()
        before = rss("VmRSS")
        used_ = start(used_at("n2", a_))
        await weather.held.wait()
        (copy,) = head_of(executor).state.transfers.values()
        await until(lambda: copy.received == copy.granted)  # n1 has sent all that it may
        weather.clear_up()
        assert await used_ == size
        assert rss("VmHWM") - before <= 48_000_000
        assert executor.report().relayed == info(a_).size
        assert [worker.data for worker in executor.workers()] == ["", ""]


def begin_peak_anew() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def rss(what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


@pytest.mark.parametrize("how", ["never answers", "accepts nothing", "is another's"])
async def test_a_port_that_nobody_reaches_is_told_once_and_values_pass_the_head(start_worker, caplog, how):
    with socket.socket() as listener, socket.socket() as queued:
        port = free_port()
        listener.bind(("127.0.0.1", port))
        here = f"tcp://127.0.0.1:{port}"
        of_other = ""
        if how == "is another's":
            listener.close()
            of_other = f"import sys; sys.argv += ['--data', '127.0.0.1:{port}']"
        else:
            listener.listen(0)
        if how == "accepts nothing":
            queued.connect(("127.0.0.1", port))  # the queue is full
        first = {"n1": ELSEWHERE.format(patience=10, address=here), "n2": of_other or QUICK}
        async with both(start_worker, first=first) as (executor, _):
            a_, b_ = await made_at("n1", SMALL), await made_at("n1", SMALL)
            assert await used_at("n2", a_) == SMALL
            assert await used_at("n2", b_) == SMALL
            assert executor.report().relayed == info(a_).size + info(b_).size
            there = next(worker.data for worker in executor.workers() if worker.name == "n2")
    told = [record.getMessage() for record in caplog.records if "data server" in record.getMessage()]
    if how != "is another's":  # that one answers, and has nothing of this name
        (words,) = told
        assert here in words
        assert there in words


# --- what breaks -----------------------------------------------------------------------------------------------------


async def behind(weather: Weather, port: int) -> dict[str, str]:
    """Code by which n1's data server listens at a port, and says that it is the proxy's."""
    at_port = f"import sys; sys.argv += ['--data', '127.0.0.1:{port}']"
    return {"n1": ELSEWHERE.format(patience=10, address=f"tcp://127.0.0.1:{weather.port}") + at_port}


async def test_a_copy_goes_on_at_its_offset_when_its_link_is_cut(start_worker):
    port = free_port()
    async with Weather(port) as weather:
        weather.delay_s = 0.001
        async with both(start_worker, first=await behind(weather, port)) as (executor, _):
            a_ = await made_at("n1", LARGE)
            used_ = start(used_at("n2", a_))
            await weather.until_passed(30_000_000)
            weather.reset()
            weather.delay_s = 0.0
            assert await used_ == LARGE
            assert weather.made == 2
            assert weather.passed < LARGE + 20_000_000  # not from the beginning: what was on its way alone is lost
            report = executor.report()
            assert (report.moved, report.relayed) == (info(a_).size, 0)
            assert same_bytes(executor)


@pytest.mark.parametrize("which", ["n1", "n2"])
async def test_a_data_server_that_is_killed_loses_nothing(start_worker, which):
    port = free_port()
    async with Weather(port) as weather:
        weather.delay_s = 0.001
        async with both(start_worker, first=await behind(weather, port)) as (executor, workers):
            a_ = await made_at("n1", LARGE)
            used_ = start(used_at("n2", a_))
            await weather.until_passed(10_000_000)
            data_server(workers[which]).kill()
            weather.delay_s = 0.0
            assert await used_ == LARGE
            report = executor.report()
            assert (report.moved, report.relayed) == (info(a_).size, 0)
            assert same_bytes(executor)


@pytest.mark.parametrize("stays", [False, True], ids=["goes on when told", "stays stopped"])
async def test_a_data_server_that_was_stopped_holds_up_no_copy(start_worker, stays):
    """A debugger that holds a process cannot be told to let it go on: that of `stays` is such."""
    look = "import grainlike_worker.daemon._data_process as d; d.LOOK_S = 0.05"
    code = f"{look}; d.go_on = lambda process: None" if stays else look
    async with both(start_worker, first={"n1": code, "n2": code}) as (executor, workers):
        await used_at("n2", await made_at("n1", SMALL))
        for worker in workers.values():
            data_server(worker).suspend()
        assert await used_at("n2", await made_at("n1", LARGE)) == LARGE
        assert executor.report().relayed == 0


# --- strangers -------------------------------------------------------------------------------------------------------


async def strangers(executor: Executor) -> None:
    """Dial the data server of n1 without what a worker of its cluster has, and be told nothing."""
    at = next(worker.data for worker in executor.workers() if worker.name == "n1")
    host, port = at.removeprefix("tcp://").split(":")
    where = TcpAddress(host, int(port))
    await to_thread.run_sync(plain_words, where)
    for role in ("client", "worker"):
        access = find_access(executor.address, role)
        assert access.credentials is not None
        await to_thread.run_sync(guesses, DataTls(access.cluster, access.credentials), where, role == "worker")


def plain_words(where: TcpAddress) -> None:
    with socket.create_connection((where.host, where.port), LIMIT_S) as sock:
        sock.sendall(encode_data(Want(bytes(16), 1, 1, 0)))
        with suppress(ConnectionError):
            assert len(sock.recv(4096)) <= 7  # an alert of TLS


def guesses(tls: DataTls, where: TcpAddress, is_worker: bool) -> None:
    told = []
    with suppress(ConnectionError, ssl.SSLError), tls.dial(where, LIMIT_S) as peer:
        for value in range(17):
            peer.sendall(encode_data(Want(bytes(16), value, 1, 0)))
            told.append(read_data(lambda count: read_exactly(peer, count)))
    assert told == [Gone()] * (16 if is_worker else 0)
