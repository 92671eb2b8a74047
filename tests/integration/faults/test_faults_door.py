"""Who must not come in: strangers at the port, workers with the wrong papers, addresses that are not to be opened."""

import asyncio
import contextlib
import logging
import pickle
import socket
import struct
from pathlib import Path

import anyio
import pytest
from limits import LIMIT_S
from msgspec.structs import replace
from waiting import logged

from grainlike import Cores, Executor, delayed
from grainlike.head.durable import HeadDaemon
from grainlike.net import Access, find_access, make_credentials, parse_address, write_access
from grainlike.wire import Report, encode_frame
from grainlike_worker.daemon._introduction import introduction

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


class Canary:
    """Sings when it is unpickled, wherever that is."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def joined(*pieces):
    return b"".join(map(bytes, pieces))


def frame(message):
    return joined(*encode_frame(message))


def hello(**changes):
    import msgspec

    return msgspec.structs.replace(introduction("stranger", Cores([0])), **changes)


async def knock(executor, data):
    """Send bytes to the head; return what it says until it hangs up."""
    address = parse_address(executor.address)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), LIMIT_S)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


GARBAGE = {
    "zeros": bytes(64),
    "random": b"\x93\xfa\x01\x00" + bytes(range(250)),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "giant header": struct.pack("<II", 2**32 - 1, 0),
    "giant buffers": struct.pack("<IIQ", 8, 1, 2**63),
    "many buffers": struct.pack("<II", 8, 2**32 - 1),
    "report first": frame(Report(0.0, [], [], [])),
    "unknown role": frame(hello(role="head")),
    "unprintable name": frame(hello(name="n1\x1b[2J")),
    "no offer": frame(hello(offer="cores=")),
}


@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("what", [*GARBAGE, "pickle", "pickle in a frame"])
async def test_garbage_is_dropped_and_logged_once_and_a_real_worker_still_works(
    what, insecure, start_worker, tmp_path, caplog, monkeypatch
):
    canary = tmp_path / "canary"
    song = pickle.dumps(Canary(canary))
    data = GARBAGE.get(what) or (song if what == "pickle" else struct.pack("<II", len(song), 0) + song)

    @delayed
    def double(x):
        return 2 * x

    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, insecure=insecure) as executor:
        caplog.clear()
        with caplog.at_level(logging.INFO), monkeypatch.context() as impatient:  # but not with the real worker
            impatient.setattr("grainlike.net._listener._HANDSHAKE_S", 0.3)
            await knock(executor, data)
            await logged(caplog, "")  # it is said once the stranger has gone
        said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(said) == 1, said
        assert not any(record.exc_info for record in caplog.records)
        assert executor.workers() == []
        if what in ("http", "pickle"):
            start_worker(executor.address, insecure=insecure)
            assert await (double @ Cores(1))(4) == 8
    assert not canary.exists()


@pytest.mark.parametrize("insecure", [False, True])
async def test_a_stranger_who_says_nothing_is_shown_out_in_time(insecure, caplog, monkeypatch):
    monkeypatch.setattr("grainlike.head.server._accept.HANDSHAKE_S", 0.1)
    monkeypatch.setattr("grainlike.net._listener._HANDSHAKE_S", 0.1)
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, insecure=insecure) as executor:
        caplog.clear()
        # The start of a TLS handshake, or of a frame.
        whole = frame(hello()) if insecure else b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)
        assert await asyncio.gather(*(knock(executor, whole[:count]) for count in (0, 1, 9, 50))) == [b""] * 4
        told = await logged(caplog, "handshake within 0.1 s", 4)  # it is said once the stranger has gone
        assert told == [record.getMessage() for record in caplog.records]
        assert len(told) == 4


async def test_many_strangers_do_not_keep_a_worker_out(monkeypatch, start_worker):
    monkeypatch.setattr("grainlike.net._listener._HANDSHAKE_S", LIMIT_S)  # so that they are there for as long
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        address = parse_address(executor.address)
        crowd = [await asyncio.open_connection(address.host, address.port) for _ in range(300)]
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        for _, writer in crowd:
            writer.close()
        await asyncio.gather(*(_end_of(reader) for reader, _ in crowd))


async def _end_of(reader):
    with contextlib.suppress(ConnectionResetError):
        await reader.read()


# --- workers that are refused ---


async def refusal(worker):
    code, said = await worker.exit()
    assert "Traceback" not in said, said
    assert code == 3, said
    return said


async def test_a_worker_that_finds_nobody_says_so(start_worker, tmp_path):
    async with asyncio.timeout(LIMIT_S), contextlib.AsyncExitStack() as stack:
        path = tmp_path / "nowhere" / "worker.json"
        none = start_worker(path)
        unknown = start_worker("tcp://127.0.0.1:1")
        silent = stack.enter_context(socket.socket())  # nobody else can listen there
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        stale = tmp_path / "stale" / "worker.json"
        gone = (parse_address(f"tcp://127.0.0.1:{port}"),)
        write_access(Access("c", "worker", gone, make_credentials("c")["worker"]), stale)
        closed = start_worker(stale)
        bad = tmp_path / "bad.json"
        bad.write_text("{}")
        bad.chmod(0o600)
        broken = start_worker(bad)
        far = tmp_path / "far" / "worker.json"
        write_access(Access("c", "worker", (parse_address("tcp://8.8.8.8:99"),)), far)
        beyond = start_worker(far, insecure=True)
        unheard = tmp_path / "unheard" / "worker.json"
        write_access(Access("c", "worker", (), make_credentials("c")["worker"]), unheard)
        early = start_worker(unheard)
        assert str(path) in await refusal(none)
        assert "no access file for tcp://127.0.0.1:1" in await refusal(unknown)
        assert f"nobody listens at tcp://127.0.0.1:{port}" in await refusal(closed)
        assert "not an access file" in await refusal(broken)
        assert "nothing goes without TLS" in await refusal(beyond)
        assert "has not listened yet" in await refusal(early)


async def test_a_worker_with_the_access_file_of_another_head_is_told(start_worker, tmp_path):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        access = find_access(executor.address)
        path = tmp_path / "old" / "worker.json"
        write_access(replace(access, credentials=make_credentials(access.cluster)["worker"]), path)
        said = await refusal(start_worker(path))
        assert f"{executor.address}: the other end's certificate does not hold here" in said
        assert executor.workers() == []


@pytest.mark.parametrize("role", ["head", "client"])
async def test_a_worker_with_the_file_of_another_role_is_told(role, start_worker, private_state):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        path = next(private_state.glob(f"*/{role}.json"))
        assert f"this access file is for a {role}; a worker needs the worker.json" in await refusal(start_worker(path))
        assert executor.workers() == []


# --- without TLS ---


async def test_without_tls_both_sides_have_to_say_so_and_do_so_loudly(start_worker, caplog):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, insecure=True) as executor:
        assert sum("INSECURE" in record.getMessage() for record in caplog.records) == 1
        assert "--insecure" in await refusal(start_worker(executor.address))
        assert executor.workers() == []
        worker = start_worker(executor.address, insecure=True)
        await executor.wait_for_workers(1)
    code, said = await worker.exit()
    assert (code, said.count("INSECURE")) == (0, 1)


async def test_saying_insecure_leaves_no_tls_out_where_there_are_certificates(start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address, insecure=True)
        await executor.wait_for_workers(1)
    assert "INSECURE" not in (await worker.exit())[1]


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:0", "tcp://192.0.2.1:7", "tcp://example.org:7", "unix:///x/y"])
async def test_without_tls_is_for_loopback_alone(address, private_state):
    with pytest.raises(PermissionError, match="insecure= is for a loopback address"):
        async with Executor(listen=address, insecure=True):
            pytest.fail("it opened")
    assert not private_state.exists()


async def test_a_worker_does_not_read_an_access_file_that_others_could_read(start_worker, tmp_path, private_state):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        path = next(private_state.glob("*/worker.json"))
        path.chmod(0o644)
        assert "chmod 600" in await refusal(start_worker(path))
        assert executor.workers() == []


async def test_a_worker_of_another_version_is_refused_with_both_versions(start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        python = start_worker(executor.address, first="import platform; platform.python_version = lambda: '3.9.1'")
        first = "from grainlike_worker.daemon import _introduction; _introduction.PROTOCOL = 99"
        protocol = start_worker(executor.address, first=first)
        said = await refusal(python)
        assert "3.9.1" in said
        assert "the head has Python" in said
        assert "99" in await refusal(protocol)
        assert executor.workers() == []


async def test_a_worker_whose_offer_is_no_offer_is_refused(start_worker):
    first = "from grainlike_worker.daemon import _serve as d; old = d.introduction\n"
    first += "def bad(*what, **more):\n import msgspec\n"
    first += " return msgspec.structs.replace(old(*what, **more), offer='cores=')\n"
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        said = await refusal(start_worker(executor.address, first=first + "d.introduction = bad"))
        assert "cores" in said.splitlines()[-1], said
        assert executor.workers() == []


async def test_a_worker_with_wrong_options_exits_with_2(start_worker):
    async with asyncio.timeout(LIMIT_S):
        code, said = await start_worker("x", resources="cores=-1").exit()
        assert (code, "Traceback" in said) == (2, False), said


async def test_two_workers_of_one_name_are_two_workers(start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        for _ in range(2):
            start_worker(executor.address, name="twin")
        await executor.wait_for_workers(2)
        assert sorted(worker.name for worker in executor.workers()) == ["twin", "twin-2"]


# --- addresses ---


async def test_a_port_in_use_is_an_error_that_names_it_and_leaves_nothing(private_state):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen at {address}"):
            async with Executor(listen=address):
                pytest.fail("it opened")
    assert not list(private_state.glob("*/*.json"))


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:0", "tcp://[::]:0"])
async def test_all_interfaces_are_announced_by_addresses_that_can_be_dialled(address, start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen=address) as executor:
        known = [parse_address(str(one)) for one in find_access().addresses]
        assert str(known[0]) == executor.address
        assert known[-1].host == "127.0.0.1"
        assert not any(one.is_wildcard for one in known)
        start_worker(executor.address)
        await executor.wait_for_workers(1)


async def test_an_address_of_another_machine_is_an_error_that_names_it():
    with pytest.raises(OSError, match=r"cannot listen at tcp://198\.51\.100\.7:7"):
        async with Executor(listen="tcp://198.51.100.7:7"):
            pytest.fail("it opened")


async def test_access_files_are_gone_when_the_head_is(private_state):
    async with Executor(listen=LISTEN):
        assert len(list(private_state.glob("*/worker.json"))) >= 1
    assert not list(private_state.glob("**/*.json"))
    assert list(private_state.iterdir()) == []


async def test_a_head_with_a_journal_takes_no_worker_that_cannot_dial_anew(tmp_path):
    journal = tmp_path / "journal"
    async with HeadDaemon(LISTEN, insecure=True, journal=journal) as daemon:
        daemon.leaves = True
        assert b"cannot connect again" in await knock(daemon, frame(hello(received=-1)))
        assert not daemon.head.peers
    async with HeadDaemon(LISTEN, insecure=True, journal=journal) as daemon:
        assert not daemon.head.peers


async def test_a_head_that_leaves_its_work_admits_nobody_whom_the_next_head_would_not_know(tmp_path):
    """No record follows the last one: a worker that were welcomed after it would be unknown to the next head."""
    with socket.socket() as worker:
        async with HeadDaemon(LISTEN, insecure=True, journal=tmp_path / "journal") as daemon:
            daemon.leaves = True
            address = parse_address(daemon.address)
            worker.connect((address.host, address.port))
            await anyio.wait_all_tasks_blocked()  # the head waits for what this one says
            worker.sendall(frame(hello(received=0)))  # which it reads in the turn in which it ends
        worker.settimeout(LIMIT_S)
        with contextlib.suppress(ConnectionResetError):
            assert worker.recv(1000) == b""


async def test_a_worker_with_thousands_of_scattered_cores_joins(start_worker):
    """No id follows another, so nothing is shorter than to list them; none but the first is of this machine."""
    ids = ",".join(str(2 * number) for number in range(4_000))
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address, resources=f"cores=[{ids}]")
        await executor.wait_for_workers(1)
        (worker,) = executor.workers()
        assert len(worker.resources.cores) == 4_000
