"""A keeper and its daemon: what a birth comes to when the keeper dies over it, and what it does when that one dies."""

import asyncio
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import termios

import pytest
from limits import LIMIT_S
from waiting import until_blocking

from grainlike_worker.daemon._keeper import KeeperClient
from grainlike_worker.ipc._fork_requests import SpawnRequest, answer, ask, take

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are keepers on Linux only")


@pytest.mark.asyncio
async def test_a_birth_over_which_the_keeper_dies_is_told_of_and_not_waited_for_when_another_has_taken_its_place() -> (
    None
):
    keeper = KeeperClient()
    try:
        keeper.start()
        first = keeper._process
        assert first is not None
        os.kill(first.pid, signal.SIGSTOP)
        spawn_request = asyncio.create_task(keeper.fork_runner(["--own"], dict(os.environ), {}))
        await asyncio.sleep(0)  # it has asked, and waits for the answer
        first.kill()
        keeper.start()  # as another birth would, before the loop turns
        assert keeper._process is not first
        with pytest.raises(OSError, match="their keeper ended: killed by SIGKILL"):
            await asyncio.wait_for(spawn_request, LIMIT_S)
    finally:
        await keeper.aclose()


WORKER = """
import fcntl, os, socket, sys, termios
from grainlike_worker.daemon._keeper import KeeperClient
from grainlike_worker.ipc._fork_requests import answer, take

keeper = KeeperClient()
keeper.start()
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
if sys.argv[2] == "held":
    keeper.hold(link.fileno())
    while fcntl.ioctl(keeper._control, termios.TIOCOUTQ, bytes(4)) != bytes(4):  # it has not taken it yet
        os.sched_yield()
print(keeper._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("held", ["held", "not held"])
def test_when_a_worker_is_killed_over_unread_messages_its_keeper_ends_the_link_in_order(held: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(server.getsockname()[1]), held],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert worker.stdout is not None
        with worker, server.accept()[0] as head:
            head.settimeout(LIMIT_S)
            keeper = int(worker.stdout.readline())
            head.sendall(b"something that it has not read")
            until_blocking(lambda: fcntl.ioctl(head, termios.TIOCOUTQ, bytes(4)) == bytes(4))  # it is there
            watch = os.pidfd_open(keeper)
            worker.kill()
            if held == "held":
                assert head.recv(100) == b""
                head.sendall(bytes(8_000_000))  # what was on the way to it, more than sockets hold
                head.shutdown(socket.SHUT_WR)
            else:
                with pytest.raises(ConnectionResetError):
                    head.recv(100)
            assert select.select([watch], [], [], LIMIT_S)[0], "it has not ended"
            os.close(watch)


def test_a_daemon_that_died_with_an_answer_unread_can_ask_no_more() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        answer(far)
        near.close()
        assert take(far) is None


def test_names_that_are_no_text_reach_a_runner_as_they_are() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        asked = SpawnRequest(["--own", ""], {"CAF\udce9": "\udcff", "EMPTY": ""}, "/caf\udce9", {"--fd": near.fileno()})
        ask(near, asked, near)
        request = take(far)
    assert isinstance(request, tuple)
    (*told, fds), status = request
    status.close()
    os.close(fds.pop("--fd"))
    assert (told, fds) == ([*asked[:3]], {})
