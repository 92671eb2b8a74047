"""100 MB from one node to seven others: seconds, and bytes out of the node that made them, beside one transfer.

Each of the eight nodes is a worker on this machine with an address of its own, from which its data server sends. The
kernel lets no more than 40 MB/s out of an address, as a network card would, so that links bound the time and not the
cores that all nodes share. It counts what has gone out, too. That takes a network of its own, and `tc`:
`unshare -rn sh -c "ip link set lo up; python -m grainlike_bench broadcast"`.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from dataclasses import dataclass

from grainlike import Cores, Delayed, Resource, delayed, gather, wait
from grainlike_bench._far_workers import far_workers

VALUE = 100_000_000
NODES = 8
RATE_MB = 40

_SENT = re.compile(r"class htb 1:(\w+) .*\n *Sent (\d+) bytes")


def made(size: int) -> bytearray:
    return bytearray(size)


def length(value: bytearray) -> int:
    return len(value)


@dataclass
class Sent:
    """Seconds until nodes had a value, and bytes out of the node that had it first."""

    seconds: float
    first: int


@dataclass
class Broadcast:
    one: Sent
    """To one other node."""
    all: Sent
    """To all others at once, of another value."""

    @property
    def copies(self) -> float:
        """Transfers of the value out of its first node: bytes over those of one transfer.

        In hundredths: how often either end of a link acknowledges differs by less.
        """
        return round(self.all.first / self.one.first, 2)

    @property
    def time(self) -> float:
        """Seconds over those of one transfer."""
        return self.all.seconds / self.one.seconds


def _address(node: int) -> str:
    return f"127.0.0.{node + 2}"


def _is_alone() -> bool:
    """Return True in a network without links to others, which nothing else uses."""
    up = subprocess.run(["ip", "-brief", "link", "show", "up"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in up.splitlines()] == ["lo"]


def _narrow() -> None:
    """Bound what goes out of each node's address; done again, it begins anew."""
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=False, capture_output=True)
    commands = ["qdisc add dev lo root handle 1: htb r2q 1000"]
    for node in range(NODES):
        cls = f"1:{node + 2:x}"
        commands += [
            f"class add dev lo parent 1: classid {cls} htb rate {8 * RATE_MB}mbit burst 256k cburst 256k",
            f"filter add dev lo parent 1: protocol ip u32 match ip src {_address(node)} flowid {cls}",
        ]
    subprocess.run(["tc", "-batch", "-"], input="\n".join(commands), text=True, check=True)


def _sent(node: int) -> int:
    said = subprocess.run(["tc", "-s", "class", "show", "dev", "lo"], capture_output=True, text=True, check=True)
    return {int(cls, 16): int(count) for cls, count in _SENT.findall(said.stdout)}[node + 2]


async def _to(value_: Delayed[bytearray], nodes: range) -> Sent:
    """Read a value of the first node at each of these once."""
    await wait(value_)
    before, begun = _sent(0), time.perf_counter()
    read = [(delayed(length) @ (Cores(1) & Resource(f"n{node}", 1)))(value_) for node in nodes]
    assert await gather(read) == [VALUE] * len(nodes)
    return Sent(time.perf_counter() - begun, _sent(0) - before)


async def _measure() -> Broadcast:
    offers = {
        f"n{node}": ["--resources", f"cores=1 n{node}=1", "--data", f"{_address(node)}:0"] for node in range(NODES)
    }
    make = delayed(made) @ (Cores(1) & Resource("n0", 1))
    async with far_workers(offers):
        nodes = range(1, NODES)
        await gather((delayed(length) @ (Cores(1) & Resource(f"n{node}", 1)))(make(1_000_000)) for node in nodes)
        return Broadcast(await _to(make(VALUE), range(1, 2)), await _to(make(VALUE), nodes))


def measure() -> Broadcast:
    """Return what one transfer and the broadcast took.

    Raises:
        RuntimeError: this network has links to others.
    """
    if not _is_alone():
        raise RuntimeError("it takes a network of its own, as `targets` makes one")
    _narrow()
    return asyncio.run(_measure())


def main() -> None:
    if not _is_alone():
        print("not measured: it takes a network of its own, as `targets` makes one")
        return
    found = measure()
    for words, sent in (("one transfer", found.one), ("to all others", found.all)):
        print(f"{words:14} {sent.seconds:6.2f} s  {sent.first / 1e6:7.1f} MB out of the first node")
    print(f"{found.time:.2f} times the time, {found.copies:.2f} times the bytes")


if __name__ == "__main__":
    main()
