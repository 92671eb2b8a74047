"""Pools: plain frozen data about one source of workers, with the keys of the settings."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

from grainlike.dialects import BlockFile, BlockRequest, Dialect
from grainlike.errors import LaunchError
from grainlike.launch import _checks
from grainlike.resources import UNIT, Allocation, Request

__all__ = ["AWAY", "POOL_NAME", "BatchPool", "WorkerPool", "keys_of", "pool_class"]

_Class = TypeVar("_Class")

WORKER_BYTES = 256 * 2**20
"""Memory of the worker itself, which is requested besides its offer."""

POOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,39}", re.ASCII)

AWAY = ".local/state/grainlike/blocks"
"""Directory of blocks, below the home directory of a machine that may share no directory with the head."""

_MARGIN_S = 60.0
_MARGIN_PART = 5

_ONE_BLOCK = cast("int", None)
"""Default of `max`, which depends on another key: the workers of one block. A pool object always has a number."""

_DURATIONS = frozenset({"walltime", "idle", "join", "margin"})

CHECKS: dict[str, _checks.Check] = {
    "resources": _checks.offer,
    "walltime": _checks.duration,
    "min": _checks.whole(0),
    "max": _checks.whole(0),
    "nodes": _checks.whole(1),
    "queue": _checks.text,
    "account": _checks.text,
    "native": _checks.words,
    "setup": _checks.words,
    "python": _checks.text,
    "env": _checks.env,
    "scratch": _checks.text,
    "wrap": _checks.text,
    "spread": _checks.text,
    "script": _checks.text,
    "idle": _checks.duration,
    "join": _checks.duration,
    "pending": _checks.whole(1),
    "margin": _checks.duration,
    "budget": _checks.number,
    "via": _checks.command,
    "pe": _checks.text,
    "torque": _checks.boolean,
    "hosts": _checks.words,
    "image": _checks.text,
    "namespace": _checks.text,
    "context": _checks.text,
    "pod": _checks.table,
    "tunnel": _checks.boolean,
}
"""Checks of all keys of all pools."""


def _own_script(*, default: str, alias: str, kw_only: bool = True) -> Any:  # noqa: ARG001 - for type checkers
    return field(default=default, kw_only=kw_only)


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field, _own_script))
def pool_class(cls: type[_Class]) -> type[_Class]:
    """Make a pool's class a frozen dataclass. `script()` is a method, so the key `script` is kept as `own_script`."""
    made: Any = dataclass(frozen=True, eq=False, repr=False)(cls)
    plain: Callable[..., None] = made.__init__

    @wraps(plain)
    def init(self: object, *args: Any, **keys: Any) -> None:
        if "script" in keys:
            keys["own_script"] = keys.pop("script")
        plain(self, *args, **keys)

    shown = signature(plain)
    names = [one.replace(name=_key(one.name)) for one in shown.parameters.values()]
    init.__signature__ = shown.replace(parameters=names)  # type: ignore[attr-defined]
    made.__init__ = init
    return cls


def _key(attribute: str) -> str:
    return "script" if attribute == "own_script" else attribute


def keys_of(pool: type[WorkerPool]) -> list[str]:
    """Return the keys of a class of pools, as they are written in settings."""
    return [_key(one.name) for one in fields(pool)]


@pool_class
class WorkerPool:
    """Source of workers: where they run, what each offers, and how many there are at least and at most.

    Attributes:
        resources: offer of each worker, as text or as a request; None for everything that the worker is granted.
        walltime: duration of a block: `"4:00:00"` (hours, minutes and seconds), or a number of seconds; None if it
            lasts until it is ended. A batch system needs one.
        min: number of workers at least.
        max: number of workers at most; by default those of one block.
        native: flags of the batch system itself.
        setup: shell lines before the worker; lines that begin with `defer` run after it, the last one first.
        python: interpreter of the workers; empty for the head's own.
        env: variables of the workers: `NAME=VALUE`, or `NAME` for the value in this process. They are in the script.
        scratch: where each block makes a temporary directory, removed at its end; `$USER` is filled in there.
        wrap: shell words before the worker's command.
        own_script: path of the user's own script with `{{holes}}`, by the key `script`; empty for the usual script.
        idle: how long a block may be without jobs: `"0:05:00"`, or a number of seconds.
        join: how long after its start the first worker of a block may take to join: `"0:05:00"`, or a number of
            seconds.
        pending: most blocks in the batch queue.
        margin: how long before its block's end a worker leaves: `"0:01:00"`, or a number of seconds. Of a short block
            it is a fifth of `walltime` at most, unless it is given.
        budget: most core-hours for the life of the pool; it needs `walltime`. None for no bound.
        via: a command before every native command, such as `ssh login1`.

    Raises:
        ValueError: an impossible value, or keys that do not fit together; the error names the key.

    Example::

        >>> from grainlike.launch import WorkerPool, Local
        >>> isinstance(Local("cores=2"), WorkerPool)
        True
    """

    kind: ClassVar[str]
    dialect_class: ClassVar[type[Dialect]]

    resources: str | Request | None = None
    _: KW_ONLY
    walltime: str | float | None = None
    min: int = 0
    max: int = _ONE_BLOCK
    native: Sequence[str] = ()
    setup: Sequence[str] = ()
    python: str = ""
    env: Sequence[str] = ()
    scratch: str = ""
    wrap: str = ""
    own_script: str = _own_script(default="", alias="script")
    idle: str | float = "0:05:00"
    join: str | float = "0:05:00"
    pending: int = 4
    margin: str | float = "0:01:00"
    budget: float | None = None
    via: str = ""

    def __post_init__(self) -> None:
        """Check each key, then the keys that must fit together."""
        for key in fields(self):
            value = getattr(self, key.name)
            if value is not None or key.default is not None:
                object.__setattr__(self, key.name, CHECKS[_key(key.name)](_key(key.name), value))
        if self.max is None:  # pyright: ignore[reportUnnecessaryComparison]
            object.__setattr__(self, "max", self.block_nodes)
        self._check_together()
        self.dialect().check_native(self.native)

    def _check_together(self) -> None:
        if self.max < self.min:
            raise ValueError(f"max: {self.max} is below min = {self.min}")
        for key in ("min", "max"):
            if getattr(self, key) % self.block_nodes:
                raise ValueError(f"{key}: {getattr(self, key)} workers are not in blocks of nodes = {self.block_nodes}")
        given = self.seconds("margin") != _MARGIN_S
        if given and self.walltime is not None and self.seconds("margin") >= self.seconds("walltime"):
            raise ValueError(f"margin: {self.margin!r} leaves nothing of walltime = {self.walltime!r}")
        if any(letter in self.scratch for letter in '"\\`'):
            raise ValueError(f"scratch: {self.scratch!r} has quotes or backslashes")
        if self.budget is not None and self.walltime is None:
            raise ValueError(f"budget: {self.budget} core-hours, and blocks without walltime have no end")
        cost = self.block_core_hours
        if self.budget is not None and cost is not None and cost > self.budget:
            raise ValueError(f"budget: {self.budget} core-hours are too few for one block, which takes {cost:g}")

    def __repr__(self) -> str:
        """Return the pool as code, without the keys that have their defaults."""
        parts: list[str] = []
        for key in fields(self):
            value = getattr(self, key.name)
            if key.name == "max" and value == self.block_nodes:
                continue
            default = key.default_factory() if key.default_factory is not MISSING else key.default
            if value != default:
                shown = repr(list(value)) if isinstance(value, tuple) else repr(value)
                parts.append(shown if key.name == "resources" else f"{_key(key.name)}={shown}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        """Compare the meaning of the keys: `"1:00"` and 60 are equal."""
        return type(self) is type(other) and isinstance(other, WorkerPool) and self._meaning() == other._meaning()

    def __hash__(self) -> int:
        """Return a number that equal pools share."""
        return hash((type(self), self._meaning()))

    def _meaning(self) -> tuple[object, ...]:
        return tuple(self._means(key.name) for key in fields(self))

    def _means(self, key: str) -> object:
        value = getattr(self, key)
        if value is None:
            return None
        if key in _DURATIONS:
            return self.seconds(key)
        if key == "resources":
            return str(self.offer)
        return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value

    @property
    def offer(self) -> Allocation | None:
        """Offer of each worker; None if it is everything that the worker is granted."""
        return None if self.resources is None else _checks.parsed_offer("resources", self.resources)

    @property
    def block_nodes(self) -> int:
        """Workers in one block."""
        return 1

    @property
    def block_core_hours(self) -> float | None:
        """Most core-hours that a block takes; None if its cores or its time are unknown beforehand."""
        cores = self._amount("cores")
        return cores * self.block_nodes * self.seconds("walltime") / 3600 if cores and self.walltime else None

    def seconds(self, key: str) -> float:
        """Return the duration of a key in seconds.

        Example::

            >>> from grainlike.launch import Local
            >>> Local(walltime="1:30:00").seconds("walltime")
            5400.0
        """
        return _checks.duration_s(key, getattr(self, key))

    @property
    def margin_s(self) -> float:
        """Seconds before its block's end at which a worker leaves; by default at most a fifth of the walltime."""
        margin = self.seconds("margin")
        if margin != _MARGIN_S or self.walltime is None:
            return margin
        return min(margin, self.seconds("walltime") / _MARGIN_PART)

    def scaled(self, least: int, most: int) -> Self:
        """Return the same pool with other numbers of workers.

        Raises:
            ValueError: the numbers do not fit together, or are not in whole blocks.

        Example::

            >>> from grainlike.launch import Local
            >>> Local("cores=2", max=4).scaled(0, 8)
            Local('cores=2', max=8)
        """
        return replace(self, min=least, max=most)

    def dialect(self) -> Dialect:
        """Return the dialect of the pool's batch system."""
        return self.dialect_class(**self._dialect_options())

    def _dialect_options(self) -> dict[str, Any]:
        return {}

    def system_options(self) -> dict[str, Any]:
        """Return the options that distinguish the pool's batch system from others of its kind."""
        return {key: value for key, value in self._dialect_options().items() if key in ("namespace", "context")}

    def settings(self) -> dict[str, Any]:
        """Return the keys and values that differ from their defaults, in types of TOML; `pool_from` makes the pool of
        them.

        Example::

            >>> from grainlike.launch import Local
            >>> Local("cores=2", max=4).settings()
            {'kind': 'local', 'resources': 'cores=2', 'max': 4}
        """
        said: dict[str, Any] = {"kind": self.kind}
        for key in fields(self):
            value = getattr(self, key.name)
            if key.name == "max" and value == self.block_nodes:
                continue
            default = key.default_factory() if key.default_factory is not MISSING else key.default
            if value != default:
                plain = str(self.offer) if key.name == "resources" else value
                said[_key(key.name)] = list(plain) if isinstance(plain, tuple) else plain
        return said

    def _amount(self, name: str) -> int:
        """Return an amount of the offer, rounded up; 0 if the offer has none."""
        offer = self.offer
        return 0 if offer is None else -(-offer.units.get(name, 0) // UNIT)

    def block(
        self,
        *,
        name: str,
        label: str,
        directory: str,
        access: str,
        environment: Mapping[str, str],
        host: str = "",
        deliver: Sequence[BlockFile] = (),
    ) -> BlockRequest:
        """Return the request for one block.

        Args:
            name: its native name.
            label: its name for people, `POOL-N`.
            directory: its own directory, as its nodes see it.
            access: the head's access file, as its nodes see it.
            environment: values of the variables in `env` that have none; variables that are not there are left out.
            host: machine of a block by SSH.
            deliver: files that the nodes do not share with the head.

        Raises:
            ValueError: the user's own script cannot be read.
        """
        memory = self._amount("memory")
        offer = self.offer
        return BlockRequest(
            name=name,
            label=label,
            directory=directory,
            access=access,
            python=self.python or sys.executable,
            cores=self._amount("cores"),
            memory=memory + WORKER_BYTES if memory else 0,
            gpus=self._amount("gpus"),
            offer="" if offer is None else str(offer),
            nodes=self.block_nodes,
            walltime_s=None if self.walltime is None else math.ceil(self.seconds("walltime")),
            native=tuple(self.native),
            env=tuple(_variables(self.env, environment)),
            setup=tuple(self.setup),
            scratch=self.scratch,
            wrap=self.wrap,
            script=self._read_own_script(),
            host=host,
            deliver=tuple(deliver),
        )

    def _read_own_script(self) -> str | None:
        if not self.own_script:
            return None
        try:
            return Path(self.own_script).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ValueError(f"script: {self.own_script}: {error}") from None

    def block_script(self, block: BlockRequest) -> str:
        """Return the script of a block; for Kubernetes, the object that is created."""
        return self.dialect().script(block)

    def script(self) -> str:
        """Return the script of a first block, with placeholders for the real name and cluster.

        Raises:
            ValueError: the script cannot be written, for example because a flag has a quote in it.

        Example::

            >>> from grainlike.launch import Local
            >>> Local("cores=2").script().splitlines()[0]
            '#!/bin/bash'
        """
        return self.block_script(self._example())

    def command(self) -> tuple[str, ...]:
        """Return the words of the command that submits a block. `script()` is its standard input, or was written
        before.

        Raises the exceptions of `script`.

        Example::

            >>> from grainlike.launch import Slurm
            >>> Slurm("cores=1", walltime=60).command()
            ('sbatch', '--parsable')
        """
        command = self.dialect().submit(self._example())
        return (command.via(self.via) if self.via else command).argv

    async def check(self) -> str:
        """Ask the batch system whether it would accept a block; return its answer. Nothing is submitted.

        Raises:
            LaunchError: it would not accept the block, or gives no answer within 30 s; with its words, the command and
                the script.
            ValueError: as `script`.

        Cancelling it withdraws the question.

        Example::

            print(await Slurm("cores=16", walltime="4:00:00", queue="long").check())
        """
        from grainlike.launch._native import ask_whether_taken  # programs that only describe pools do without

        return await ask_whether_taken(self.dialect(), self._example(), self.via)

    async def hopeless(self) -> LaunchError | None:
        """Return the refusal that every block would get, if the batch system tells it without a submission; otherwise
        None.
        """
        words = self.dialect_class.hopeless
        try:
            if words is not None:
                await self.check()
        except LaunchError as error:
            return error if words is not None and words.search(error.words) else None
        except ValueError:  # the submission raises this again, if the script cannot be written
            return None
        return None

    @property
    def has_one_server(self) -> bool:
        """True if one server answers for all blocks of the pool; machines by SSH answer each for itself."""
        return True

    @property
    def is_away(self) -> bool:
        """True if the nodes may share no directory with the head, so that files are delivered to them."""
        return bool(self.via)

    def _example(self) -> BlockRequest:
        from grainlike.net import state_directory

        name, state = "gl00000000-1", state_directory()
        directory = f"{AWAY}/{name}" if self.is_away else str(state / "blocks" / name)
        access = f"{directory}/worker.json" if self.is_away else str(state / "current" / "worker.json")
        return self.block(
            name=name,
            label=f"{self.kind}-1",
            directory=directory,
            access=access,
            environment=os.environ,
            host=self._first_host(),
            deliver=(BlockFile(access, ""),) if self.is_away else (),
        )

    def _first_host(self) -> str:
        return ""


def _variables(entries: Sequence[str], environment: Mapping[str, str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in entries:
        name, equals, value = entry.partition("=")
        if equals or name in environment:
            found.append((name, value if equals else environment[name]))
    return found


@pool_class
class BatchPool(WorkerPool):
    """`WorkerPool` of a batch system: blocks of several nodes, queues and accounts.

    Attributes:
        nodes: number of workers in one block, each on a node of its own.
        queue: partition, or queue.
        account: account, or project.
        spread: command that starts one worker on each node; empty for the system's own way.

    Raises:
        ValueError: there is no `walltime`, the offer names ids, or `spread` is unknown to the batch system.
    """

    nodes: int = field(default=1, kw_only=True)
    queue: str = field(default="", kw_only=True)
    account: str = field(default="", kw_only=True)
    spread: str = field(default="", kw_only=True)

    @property
    def block_nodes(self) -> int:
        """Workers in one block."""
        return self.nodes

    def _check_together(self) -> None:
        super()._check_together()
        if self.walltime is None:
            raise ValueError(f"walltime: a pool of {self.dialect_class.title} needs one, such as '4:00:00'")
        if self.offer is not None and self.offer.ids:
            raise ValueError(
                f"resources: {self.resources!r} names ids; {self.dialect_class.title} says which ones a block gets"
            )
        known = self.dialect().spreads
        if self.spread and self.spread not in known:
            raise ValueError(f"spread: {self.spread!r} is none of {', '.join(known)}")

    def block(self, **known: Any) -> BlockRequest:
        """Return the request for one block, as `WorkerPool.block` does."""
        asked = super().block(**known)
        return replace(asked, queue=self.queue, account=self.account, spread=self.spread)
