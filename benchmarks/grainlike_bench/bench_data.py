"""A replica from one data server to another, beside the bare link: the same bytes between memories, by the same TLS.

Both ends have a process of their own, as workers on two nodes do; the files are in shared memory.
"""

import multiprocessing
import queue
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from grainlike.net import Credentials, TcpAddress, listen_tcp, make_credentials
from grainlike.payload import allocate_replica, replica_name, replica_path, replica_room
from grainlike.wire import Message, PullInto, PullReplica, Received
from grainlike_worker.data._pulling import Puller
from grainlike_worker.data._serving import ReplicaServer
from grainlike_worker.data._tls import DataTls

SIZE = 200_000_000
ROUNDS = 7
KEY = bytes(16)


def serve_bare(told: "multiprocessing.Queue[int]", credentials: Credentials) -> None:
    """Send `SIZE` bytes of memory to each who connects, and says that it is ready."""
    data = b"7" * SIZE
    with listen_tcp(TcpAddress("127.0.0.1", 0)) as listener:
        listener.setblocking(True)
        told.put(listener.getsockname()[1])
        while True:
            with DataTls("bench", credentials).accept(listener.accept()[0], 10.0) as peer:
                peer.recv(1)
                peer.sendall(data)


def serve_file(told: "multiprocessing.Queue[int]", credentials: Credentials, directory: str) -> None:
    """Be the data server of a directory."""
    with listen_tcp(TcpAddress("127.0.0.1", 0)) as listener:
        told.put(listener.getsockname()[1])
        ReplicaServer(listener, DataTls("bench", credentials), Path(directory), KEY).serve()


def bare(tls: DataTls, port: int) -> float:
    """Return the seconds that the bytes take to memory of this process."""
    room = memoryview(bytearray(SIZE))
    with tls.dial(TcpAddress("127.0.0.1", port), 10.0) as peer:
        begun = time.perf_counter()
        peer.sendall(b"!")
        at = 0
        while at < SIZE:
            at += peer.recv_into(room[at:])
        return time.perf_counter() - begun


def pulled(puller: Puller, said: "queue.SimpleQueue[Message]", port: int, directory: Path) -> float:
    """Return the seconds that the replica takes to a file of ours."""
    begun = time.perf_counter()
    room = replica_room(directory, replica_path(directory, 7, 1))
    allocate_replica(room, SIZE)
    order = PullReplica(1, 7, 1, SIZE, 0, f"tcp://127.0.0.1:{port}", replica_name(KEY, 7, 1))
    puller.pull(PullInto(order, str(room)))
    answer = said.get(timeout=60)
    took = time.perf_counter() - begun
    assert answer == Received(1, 0), answer
    room.unlink()
    return took


def _start(serve: Callable[..., None], *args: object) -> tuple[multiprocessing.Process, int]:
    told: multiprocessing.Queue[int] = multiprocessing.Queue()
    process = multiprocessing.Process(target=serve, args=(told, *args), daemon=True)
    process.start()
    return process, told.get(timeout=60)


def measure(rounds: int) -> list[tuple[float, float]]:
    """Return the seconds of the bare link and of the data server in every round."""
    credentials = make_credentials("bench")["worker"]
    tls = DataTls("bench", credentials)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home:  # where stores are, too
        there, here = Path(home, "there"), Path(home, "here")
        for path in (there, here):
            path.mkdir()
        replica_path(there, 7, 1).write_bytes(b"7" * SIZE)
        servers = [_start(serve_bare, credentials), _start(serve_file, credentials, str(there))]
        said: queue.SimpleQueue[Message] = queue.SimpleQueue()
        puller = Puller(tls, here, said.put, 10.0)
        rows = [(bare(tls, servers[0][1]), pulled(puller, said, servers[1][1], here)) for _ in range(rounds)]
        for process, _ in servers:
            process.kill()
            process.join()
    return rows


def main() -> None:
    """Print the medians of some rounds in which both take turns."""
    rows = measure(ROUNDS)
    link, data = (statistics.median(row[column] for row in rows) for column in (0, 1))
    ratio = statistics.median(row[0] / row[1] for row in rows)
    print(f"{SIZE / 1e6:.0f} MB over loopback TLS, bare link    {link:8.3f} s {SIZE / link / 1e6:8.0f} MB/s")
    print(f"{SIZE / 1e6:.0f} MB over loopback TLS, data server  {data:8.3f} s {SIZE / data / 1e6:8.0f} MB/s")
    print(f"ratio, median of {ROUNDS} pairs                {ratio:8.2f}")
