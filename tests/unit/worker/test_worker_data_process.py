"""Where a worker's data server listens, and where there is none."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from data_ends import CREDENTIALS, LIMIT_S
from msgspec.structs import replace
from ports import free_port
from replicas import at_once

from grainlike.net import Access, Link, TcpAddress, adopt, listen_tcp
from grainlike.wire import Message, PullReplica, Unsent
from grainlike_worker.daemon import _data_process
from grainlike_worker.daemon._data_process import check_data_option, open_data_process
from grainlike_worker.daemon._pulls import ReplicaPulls
from grainlike_worker.store._replicas import WorkerReplicas

ACCESS = Access("c1", "worker", (TcpAddress("127.0.0.1", 7777),), CREDENTIALS["worker"])
KEY = bytes(16)


@asynccontextmanager
async def to_a_head(host: str = "127.0.0.1") -> AsyncIterator[Link]:
    with listen_tcp(TcpAddress(host, 0)) as listener:
        link = await adopt(socket.create_connection(listener.getsockname()[:2]))
        yield link
        await link.aclose()


@pytest.mark.parametrize(("host", "told"), [("127.0.0.1", "tcp://127.0.0.1"), ("::1", "tcp://[::1]")])
@pytest.mark.anyio
async def test_by_itself_it_listens_where_the_worker_reaches_its_head(tmp_path: Path, host: str, told: str) -> None:
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 on this machine")
    async with to_a_head(host) as link:
        with open_data_process(ACCESS, link, "", str(tmp_path), KEY) as data:
            assert data is not None
            where, _, port = data.address.rpartition(":")
            assert where == told
            socket.create_connection((host, int(port))).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


@pytest.mark.anyio
async def test_a_process_that_cannot_be_started_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise OSError("no process left")

    monkeypatch.setattr(_data_process, "start_module", none_left)
    monkeypatch.setattr(_data_process, "AGAIN_S", 0.0)
    said: list[Message] = []
    over = anyio.Event()

    def say(message: Message, _: object) -> None:
        said.append(message)
        over.set()

    async with to_a_head() as link:
        with open_data_process(ACCESS, link, "", str(tmp_path), KEY) as data:
            assert data is not None
            pulls = ReplicaPulls(at_once(WorkerReplicas(tmp_path)), say, data)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(data.run, pulls)
                pulls.begin(PullReplica(1, 7, 1, 10, 0, "tcp://n1:7", KEY))
                with anyio.fail_after(LIMIT_S):
                    await over.wait()
                tasks.cancel_scope.cancel()
    (unsent,) = said
    assert isinstance(unsent, Unsent)
    assert unsent.unreachable
    assert not pulls.busy


@pytest.mark.anyio
async def test_it_listens_where_it_is_told_to(tmp_path: Path) -> None:
    port = free_port()
    with listen_tcp(TcpAddress("127.0.0.1", port)):
        async with to_a_head() as link:
            with (
                pytest.raises(OSError, match=f"cannot listen at tcp://127.0.0.1:{port}"),
                open_data_process(ACCESS, link, f"127.0.0.1:{port}", str(tmp_path), KEY),
            ):
                pass
    async with to_a_head() as link:
        for option, told in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("localhost", "localhost")):
            with open_data_process(ACCESS, link, f"{option}:{port}", str(tmp_path), KEY) as data:
                assert data is not None
                assert data.address == f"tcp://{told}:{port}"


@pytest.mark.anyio
async def test_without_tls_or_a_store_or_when_it_is_off_there_is_none(tmp_path: Path) -> None:
    naked = replace(ACCESS, credentials=None)
    near, far = socket.socketpair()
    unix = await adopt(near)
    async with to_a_head() as link:
        for access, way, option, directory in (
            (naked, link, "", str(tmp_path)),
            (None, link, "", str(tmp_path)),
            (ACCESS, unix, "", str(tmp_path)),
            (ACCESS, link, "off", str(tmp_path)),
            (ACCESS, link, "", ""),
        ):
            with open_data_process(access, way, option, directory, KEY) as data:
                assert data is None
    await unix.aclose()
    far.close()


@pytest.mark.anyio
async def test_an_access_file_of_before_has_none_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = replace(ACCESS, credentials=CREDENTIALS["client"])  # good for dialling alone, as a worker's was
    async with to_a_head() as link:
        with open_data_process(old, link, "", str(tmp_path), KEY) as data:
            assert data is None
    assert "access file" in caplog.text


@pytest.mark.parametrize("text", ["", "7777", "host", ":7777", "host:99999", "unix:///tmp/x", "[::1"])
def test_an_option_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        check_data_option(text)


def test_options_that_can_be() -> None:
    for text in ("off", "n1:7777", "[::1]:0", "tcp://10.0.0.7:7"):
        assert check_data_option(text) == text
