"""`access generate`: the files that let processes into a cluster, made before there is one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from grainlike.cli._exits import OK
from grainlike.net import (
    Access,
    Address,
    UnixAddress,
    accesses_for,
    make_credentials,
    parse_address,
    state_directory,
    write_access,
)

__all__ = ["generate"]

_USES = {
    "head": 'grainlike head start --listen {listen} --access {path}\n    Executor(listen="{listen}", access="{path}")',
    "worker": "grainlike worker start --head {path}",
    "client": 'connect("{path}")',
}


def generate(directory: Path | None, addresses: Sequence[str], cluster: str | None, days: float) -> int:
    """Write the three files and print the purpose of each; return the exit code.

    Raises `ValueError` for an address or a name that is none, `OSError` when the files cannot be, or are there already.
    """
    name = cluster or secrets.token_hex(6)
    dialled = tuple(parse_address(address) for address in addresses)
    accesses = accesses_for(name, dialled, make_credentials(name, days=days))
    folder = state_directory() / name if directory is None else directory.expanduser().absolute()
    _write(accesses, folder)
    print(f"cluster {name}, for {days:g} days")  # noqa: T201 - a command line speaks
    for access in accesses:
        path = folder / f"{access.role}.json"
        print(f"  {path}\n    {_USES[access.role].format(path=path, listen=_listens(dialled))}")  # noqa: T201
    return OK


def _listens(dialled: Sequence[Address]) -> str:
    """Return the address at which a head has to listen for workers to find it at the first address."""
    first = dialled[0] if dialled else None
    if isinstance(first, UnixAddress):
        return str(first)
    return f"tcp://0.0.0.0:{0 if first is None else first.port}"


def _write(accesses: Sequence[Access], folder: Path) -> None:
    present = [path for access in accesses if (path := folder / f"{access.role}.json").exists()]
    if present:
        raise FileExistsError(f"{present[0]} is there already; remove it, or choose another --directory")
    for access in accesses:
        write_access(access, folder / f"{access.role}.json")
