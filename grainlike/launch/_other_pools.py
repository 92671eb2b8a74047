"""Pools without a batch system: machines by SSH, this machine, and Kubernetes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

from grainlike.dialects import (
    BlockFile,
    BlockRequest,
    Dialect,
    KubernetesDialect,
    LocalDialect,
    SSHDialect,
    expand_hosts,
)
from grainlike.launch._pool import WorkerPool, pool_class

__all__ = ["SSH", "Kubernetes", "Local"]

_HOST = re.compile(r"[A-Za-z0-9_.@:%][A-Za-z0-9_.@:%\-]*", re.ASCII)


def _with_own_end(pool: WorkerPool, block: BlockRequest) -> BlockRequest:
    """Return the request with the time limit in the worker's offer: there is no batch system to end the block."""
    if pool.walltime is None or pool.offer is None:
        return block
    usable = max(1.0, pool.seconds("walltime") - pool.margin_s)
    return replace(block, offer=str(pool.offer.lasting(usable)))


@pool_class
class SSH(WorkerPool):
    """Workers on machines that `ssh` reaches, one block on each machine; native flags are flags of `ssh`.

    Attributes:
        hosts: the machines; `node[1-4]` stands for four.
        tunnel: forward the head's port to the machines, if they cannot connect to the head.

    Raises:
        ValueError: there are no `hosts`, one is none, or `max` is above their number.

    Example::

        >>> SSH("cores=8", hosts=["node[1-2]", "gpu1"], max=3).machines
        ('node1', 'node2', 'gpu1')
    """

    kind: ClassVar[str] = "ssh"
    dialect_class: ClassVar[type[Dialect]] = SSHDialect

    hosts: Sequence[str] = field(default=(), kw_only=True)
    tunnel: bool = field(default=False, kw_only=True)

    @property
    def has_one_server(self) -> bool:
        """False, because each machine answers for its own block: one that is silent delays the listing of all."""
        return False

    @property
    def is_away(self) -> bool:
        """True, because a machine may share no directory with the head."""
        return True

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of the machines, each once."""
        return tuple(dict.fromkeys(host for text in self.hosts for host in expand_hosts(text)))

    def _check_together(self) -> None:
        super()._check_together()
        machines = self.machines
        if not machines:
            raise ValueError("hosts: name the machines, as hosts = ['node[1-4]', 'gpu1']")
        for host in machines:
            if not _HOST.fullmatch(host):
                raise ValueError(f"hosts: {host!r} is no host")
        if self.max > len(machines):
            raise ValueError(f"max: {self.max} workers on {len(machines)} machines; each has one")

    def _first_host(self) -> str:
        return self.machines[0]

    async def check(self) -> str:
        """Ask each machine whether it accepts a connection; return the answers, one line for each. Nothing is started.

        Raises:
            LaunchError: no machine accepts one, or answers within 30 s.
            ValueError: as `script`.

        Cancelling it ends the processes that ask the machines.

        Example::

            print(await SSH("cores=16", hosts=["node1", "node2"]).check())
        """
        from grainlike.launch._native import ask_each_whether_taken  # programs that only describe pools do without

        blocks = {machine: replace(self._example(), host=machine) for machine in self.machines}
        return await ask_each_whether_taken(self.dialect(), blocks, self.via)

    def block(self, **known: Any) -> BlockRequest:
        """Return the request for one block, as `WorkerPool.block` does."""
        return _with_own_end(self, super().block(**known))


@pool_class
class Local(WorkerPool):
    """Workers in processes of this machine.

    Example::

        >>> Local("cores=2", max=4)
        Local('cores=2', max=4)
    """

    kind: ClassVar[str] = "local"
    dialect_class: ClassVar[type[Dialect]] = LocalDialect

    def _check_together(self) -> None:
        super()._check_together()
        if self.max > 1 and self.offer is None:
            words = f"{self.max} workers of one machine cannot each have all of it; write what one offers"
            raise ValueError(f"resources: {words}, as 'cores=2 memory=4Gi'")

    def block(self, **known: Any) -> BlockRequest:
        """Return the request for one block, as `WorkerPool.block` does."""
        return _with_own_end(self, super().block(**known))


@pool_class
class Kubernetes(WorkerPool):
    """Workers in pods of Kubernetes: a block is an indexed Job.

    Attributes:
        image: the image of the workers.
        namespace: namespace of the Jobs; empty for the context's own.
        context: context of the user's configuration; empty for the current one.
        pod: mapping that is merged over the pod's spec.
        nodes: number of pods in one block.

    Raises:
        ValueError: there is no `image`, the offer has no cores, or `via` is given.

    Example::

        >>> Kubernetes("cores=4 memory=8Gi", image="me/worker:1", max=4).dialect().title
        'Kubernetes'
    """

    kind: ClassVar[str] = "k8s"
    dialect_class: ClassVar[type[Dialect]] = KubernetesDialect

    image: str = field(default="", kw_only=True)
    namespace: str = field(default="", kw_only=True)
    context: str = field(default="", kw_only=True)
    pod: Mapping[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    nodes: int = field(default=1, kw_only=True)

    @property
    def block_nodes(self) -> int:
        """Workers in one block."""
        return self.nodes

    def _check_together(self) -> None:
        super()._check_together()
        if self.via:
            raise ValueError("via: Kubernetes is asked by its API, not by a command; write context, or set KUBECONFIG")
        if not self.image:
            raise ValueError("image: name the image of the workers, as image = 'registry/worker:1'")
        if self.offer is None or not self._amount("cores"):
            raise ValueError("resources: a pod has no whole node; write what it offers, as 'cores=4 memory=8Gi'")

    def _dialect_options(self) -> dict[str, Any]:
        names = ("image", "namespace", "context")
        return {**{name: getattr(self, name) for name in names}, "pod": json.dumps(self.pod, sort_keys=True)}

    def dialect(self) -> KubernetesDialect:
        """Return the text for the API."""
        return KubernetesDialect(**self._dialect_options())

    def block(self, **known: Any) -> BlockRequest:
        """Return the request for one block. An image has its own interpreter, and no file of the head."""
        asked = super().block(**known)
        mounted = asked.deliver or (BlockFile("worker.json", ""),)
        return replace(asked, python=self.python or "python3", deliver=mounted)

    def block_script(self, block: BlockRequest) -> str:
        """Return the Job that is created, as JSON text of several lines; its Secret is never shown."""
        return json.dumps(self.dialect().manifest(block), indent=2) + "\n"

    async def check(self) -> str:
        """Ask Kubernetes in a dry run whether it would accept a block; return its answer. Nothing is submitted.

        Raises:
            LaunchError: it would not accept the block, or gives no answer within 30 s.
            ValueError: as `script`.

        Cancelling it withdraws the question.

        Example::

            print(await Kubernetes("cores=4", image="registry.example/worker:1").check())
        """
        from grainlike.launch._kubernetes_session import ask_kubernetes  # programs that only describe pools do without

        block = self._example()
        return await ask_kubernetes(self.dialect(), block, self.block_script(block))
