"""A real Slurm whose nodes are apart: each in namespaces of its own, with an address, a host name and a directory.

All of it is in network namespaces that end with the block: a bridge in one, where the controller and the head are, and
a pair of interfaces to each node. Nothing of it is seen by this machine's own network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

from slurm_here import SlurmHere

__all__ = ["SlurmApart", "missing_tools"]

TOOLS = ("ip", "nsenter", "unshare")
NETWORK = "10.173.77"


def missing_tools() -> list[str]:
    """Return which programs that make namespaces are not installed."""
    return [name for name in TOOLS if shutil.which(name) is None]


class SlurmApart(SlurmHere):
    """Slurm with nodes `n1`, `n2` ..., from `with SlurmApart(folder) as slurm` on; commands run beside its controller.

    Attributes:
        here: words before a command that is to run where the controller is.
        home: directory that the controller and `n1` share; the other nodes have an empty one in its place.
        local: directory that every node has of its own.
    """

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        super().__init__(folder, nodes)
        self.home, self.local = folder / "home", folder / "local"
        self._hub = f"gl{os.getpid()}hub"
        self.here = ("nsenter", f"--net=/run/netns/{self._hub}")

    def _start_network(self, stack: ExitStack) -> None:
        for path in (self.home, self.local):
            path.mkdir()
        self._add_namespace(stack, self._hub)
        self._ip(self._hub, "link", "add", "bridge", "type", "bridge")
        self._ip(self._hub, "address", "add", f"{self.control}/24", "dev", "bridge")
        self._ip(self._hub, "link", "set", "bridge", "up")
        for node in self.nodes:
            self._add_namespace(stack, self._namespace(node))
            pair = ("type", "veth", "peer", "name", "eth0", "netns", self._namespace(node))
            self._ip(self._hub, "link", "add", f"to-{node}", *pair)
            self._ip(self._hub, "link", "set", f"to-{node}", "master", "bridge", "up")
            self._ip(self._namespace(node), "address", "add", f"{self.address_of(node)}/24", "dev", "eth0")
            self._ip(self._namespace(node), "link", "set", "eth0", "up")

    @property
    def control(self) -> str:
        return f"{NETWORK}.254"

    def address_of(self, node: str) -> str:
        return f"{NETWORK}.{self.nodes.index(node) + 1}"

    def host_of(self, node: str) -> str:
        return f"host-{node}"

    def before(self, node: str) -> tuple[str, ...]:
        if not node:
            return self.here
        apart = [self.local] if node == self.nodes[0] else [self.local, self.home]
        mounts = "".join(f"mount -t tmpfs -o mode=0755 none {path}; " for path in apart)
        shell = f'hostname {self.host_of(node)}; {mounts}exec "$@"'
        return ("nsenter", f"--net=/run/netns/{self._namespace(node)}", "unshare", "-u", "-m", "sh", "-ec", shell, "sh")

    def _namespace(self, node: str) -> str:
        return f"gl{os.getpid()}{node}"

    def _add_namespace(self, stack: ExitStack, name: str) -> None:
        subprocess.run(["ip", "netns", "add", name], check=True)
        stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
        self._ip(name, "link", "set", "lo", "up")

    @staticmethod
    def _ip(namespace: str, *words: str) -> None:
        subprocess.run(["ip", "-n", namespace, *words], check=True)
