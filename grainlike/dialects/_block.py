"""Requests for blocks, and the commands and files that are made of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename

__all__ = [
    "BlockFile",
    "BlockRequest",
    "CommandResult",
    "NativeCommand",
    "is_native_name",
    "native_environment",
    "native_name",
]

_OURS = re.compile(r"gl[0-9a-f]{8}-[0-9]{1,9}", re.ASCII)


def native_name(digest: str, number: int) -> str:
    """Return the name of block `number` of a cluster in the batch system: at most 15 characters up to block 9999.

    Args:
        digest: hexadecimal digest of the cluster's identity, 8 digits or more.
        number: the block's number, which never comes again.

    Raises:
        ValueError: the digest is too short, or not hexadecimal.

    Example::

        >>> native_name("1A2B3C4D5E6F", 7)
        'gl1a2b3c4d-7'
    """
    name = f"gl{digest[:8].lower()}-{number}"
    if not _OURS.fullmatch(name):
        raise ValueError(f"{digest!r} and {number!r} make no name of a block")
    return name


def is_native_name(name: str) -> bool:
    """Return True for the name of a block, of whichever cluster."""
    return _OURS.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class BlockFile:
    """A file of a block, for its own directory: mode 0600, or 0700 if it is to be run."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class NativeCommand:
    """A native command: its words, and the text on its standard input.

    Example::

        >>> NativeCommand(("squeue", "-o", "%i|%j")).via("ssh login1").argv
        ('ssh', 'login1', 'squeue', '-o', "'%i|%j'")
    """

    argv: tuple[str, ...]
    stdin: str = ""

    def via(self, before: str) -> NativeCommand:
        """Return the command with the words of `before` in front; they are quoted once more where that is `ssh`.

        `ssh` joins its words and gives them to a shell; other programs (`sudo`, `docker exec`) hand them on.
        """
        words = shlex.split(before)
        remote = any(basename(word) == "ssh" for word in words)
        return NativeCommand((*words, *map(shlex.quote, self.argv)) if remote else (*words, *self.argv), self.stdin)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Outcome of a native command: its exit code (None: it was killed, or had no time left) and what it printed."""

    code: int | None
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRequest:
    """All that is said to a batch system about one block.

    Attributes:
        name: the native name, by `native_name`.
        label: `POOL-N`; the workers are `POOL-N.0`, `POOL-N.1` ...
        directory: the block's own directory, as its nodes see it. Script and log are there.
        access: the access file of the head, as the nodes see it.
        python: the interpreter that runs the worker.
        cores: how many to ask for on each node; 0 with `offer` empty: whole nodes.
        memory: bytes to ask for on each node, the worker's own included; 0: nothing is said.
        gpus: devices to ask for on each node.
        offer: text of what each worker offers; empty: what it finds to be granted.
        nodes: how many nodes, with one worker on each.
        walltime_s: whole seconds after which the batch system ends it; None: never.
        queue: partition or queue.
        account: account or project.
        native: more words for the submission, as the user wrote them.
        env: variables of the worker.
        setup: shell lines before the worker; those that begin with `defer` run after it, the last first.
        scratch: where a temporary directory of the block's own is made on each node; empty: nowhere.
        wrap: shell words before the worker's command.
        spread: the program that starts one worker on each node; empty: the system's own.
        script: the user's own script, with holes; None: ours.
        host: the machine of an SSH block.
        deliver: files that the nodes do not share with the head.
    """

    name: str
    label: str
    directory: str
    access: str
    python: str
    cores: int = 0
    memory: int = 0
    gpus: int = 0
    offer: str = ""
    nodes: int = 1
    walltime_s: int | None = None
    queue: str = ""
    account: str = ""
    native: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    setup: tuple[str, ...] = ()
    scratch: str = ""
    wrap: str = ""
    spread: str = ""
    script: str | None = None
    host: str = ""
    deliver: tuple[BlockFile, ...] = ()

    @property
    def whole(self) -> bool:
        """True if it asks for whole nodes, whatever they have."""
        return not self.offer

    @property
    def log(self) -> str:
        """Path of the log, which the workers write."""
        return f"{self.directory}/log"

    @property
    def kept(self) -> str:
        """Path of the kept script."""
        return f"{self.directory}/script"

    @property
    def setup_lines(self) -> tuple[str, ...]:
        """Lines of `setup` that run before the worker."""
        return tuple(line for line in self.setup if not _DEFER.match(line))

    @property
    def defer_lines(self) -> tuple[str, ...]:
        """Lines of `setup` that run after the worker, in the order in which they run."""
        return tuple(line[found.end() :] for line in reversed(self.setup) if (found := _DEFER.match(line)))


_DEFER = re.compile(r"\s*defer\s+")

_ALWAYS = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM"})


def native_environment(
    environment: Mapping[str, str], finders: Sequence[str], env: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return the environment of a native command: a few variables of the head's, and nothing else of it.

    A head that runs inside a batch job has variables that change what a submission means, and any head may have
    secrets.

    Args:
        environment: the head's own.
        finders: names of variables that find the batch system; one that ends with `*` stands for all that begin so.
        env: variables of the pool.

    Example::

        >>> native_environment({"PATH": "/bin", "SLURM_CONF": "/etc/c", "SLURM_JOB_ID": "7"}, ["SLURM_CONF"])
        {'PATH': '/bin', 'SLURM_CONF': '/etc/c'}
    """
    starts = ("LC_", *(name[:-1] for name in finders if name.endswith("*")))
    chosen = {
        name: value
        for name, value in environment.items()
        if name in _ALWAYS or name in finders or name.startswith(starts)
    }
    return {**chosen, **dict(env)}
