"""Pools of the batch systems: Slurm, PBS, LSF and Grid Engine."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from grainlike.dialects import Dialect, GridEngineDialect, LSFDialect, PBSDialect, SlurmDialect
from grainlike.launch._pool import BatchPool, pool_class

__all__ = ["LSF", "PBS", "SGE", "Slurm"]


@pool_class
class Slurm(BatchPool):
    """Workers in jobs of Slurm.

    Example::

        >>> Slurm("cores=16 memory=60Gi", walltime="4:00:00", max=8, queue="standard").block_core_hours
        64.0
    """

    kind: ClassVar[str] = "slurm"
    dialect_class: ClassVar[type[Dialect]] = SlurmDialect


@pool_class
class PBS(BatchPool):
    """Workers in jobs of OpenPBS, PBS Professional or Torque.

    Attributes:
        torque: True for Torque, which asks for nodes in words of its own.

    Example::

        >>> PBS("cores=4", walltime=3600, torque=True)
        PBS('cores=4', walltime=3600, torque=True)
    """

    kind: ClassVar[str] = "pbs"
    dialect_class: ClassVar[type[Dialect]] = PBSDialect

    torque: bool = field(default=False, kw_only=True)

    def _dialect_options(self) -> dict[str, Any]:
        return {"torque": self.torque}


@pool_class
class LSF(BatchPool):
    """Workers in jobs of LSF.

    Example::

        >>> LSF("cores=4", walltime="1:00:00", nodes=2).max
        2
    """

    kind: ClassVar[str] = "lsf"
    dialect_class: ClassVar[type[Dialect]] = LSFDialect


@pool_class
class SGE(BatchPool):
    """Workers in jobs of Grid Engine.

    Attributes:
        pe: the parallel environment, which blocks of more than one core need.

    Example::

        >>> SGE("cores=1", walltime=3600) == SGE("cores=1", walltime="1:00:00")
        True
    """

    kind: ClassVar[str] = "sge"
    dialect_class: ClassVar[type[Dialect]] = GridEngineDialect

    pe: str = field(default="", kw_only=True)

    def _dialect_options(self) -> dict[str, Any]:
        return {"pe": self.pe}

    def _check_together(self) -> None:
        super()._check_together()
        slots = (self._amount("cores") or 1) * self.nodes
        if slots > 1 and not self.pe:
            raise ValueError(f"pe: Grid Engine gives {slots} slots in a parallel environment alone; name one")
