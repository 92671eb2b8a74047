"""Access files: how the processes of a cluster learn the head's address and the secret they share.

`STATE/CLUSTER/ROLE.json`, readable by its owner alone, with `STATE/current` a symlink to the newest cluster's folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net._address import Address, parse_address
from grainlike.net._guard import make_private_directory

__all__ = [
    "Access",
    "Role",
    "find_access",
    "publish_access",
    "read_access",
    "state_directory",
    "withdraw_access",
    "write_access",
]

Role = Literal["head", "worker"]
"""Whose file it is: the head's own programs (its clients, `status`, `stop`), or workers that dial in."""

_ROLES: tuple[Role, ...] = ("head", "worker")
_VERSION = 1
_SIZE_LIMIT = 64 * 1024
_CURRENT = "current"
_CLUSTER = re.compile(r"(?!\.|current$)[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class Access:
    """What it takes to be let in: where, to which cluster, and the proof of belonging to it (never shown by `repr`)."""

    address: Address
    cluster: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _CLUSTER.fullmatch(self.cluster):
            raise ValueError(f"a cluster's name is letters, digits, '.', '_' and '-', not {self.cluster!r}")


def state_directory() -> Path:
    """Where this user's access files are: `$XDG_STATE_HOME/grainlike`, else `~/.local/state/grainlike`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state, "grainlike")
    home = os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir
    return Path(home, ".local", "state", "grainlike")


def publish_access(access: Access) -> Path:
    """Write the files of both roles into the cluster's folder, make it the current one, and return the folder."""
    state = state_directory()
    folder = state / access.cluster
    make_private_directory(state)
    for role in _ROLES:
        write_access(access, folder / f"{role}.json")
    # A symlink cannot be replaced in place; a new one renamed over it can.
    fresh = state / f".{_CURRENT}.{secrets.token_hex(8)}"
    fresh.symlink_to(access.cluster)
    fresh.replace(state / _CURRENT)
    return folder


def withdraw_access(access: Access) -> None:
    """Remove what `publish_access` wrote, and `current` if it still means this cluster. What is gone is no error."""
    state = state_directory()
    folder = state / access.cluster
    with contextlib.suppress(OSError):
        if (state / _CURRENT).readlink() == Path(access.cluster):
            (state / _CURRENT).unlink()
    for role in _ROLES:
        (folder / f"{role}.json").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def write_access(access: Access, path: Path) -> None:
    """Write one file, mode 0600, in a private directory; readers see the old one or the new one, never a part."""
    make_private_directory(path.parent)
    text = json.dumps(
        {
            "version": _VERSION,
            "address": str(access.address),
            "cluster": access.cluster,
            "secret": access.secret.hex(),
        }
    )
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def find_access(what: str | Path | None = None, role: Role = "worker") -> Access:
    """Find the access file that `what` means: an address, a file, or (None) the current head's.

    Raises `HeadLostError` when there is none, `AuthenticationError` when other users could have read or written it, and
    `ValueError` when it is no access file.

    Example::

        access = find_access()
        link = await connect(access.address)
    """
    if what is None:
        path = state_directory() / _CURRENT / f"{role}.json"
        if not path.exists():
            raise HeadLostError(
                f"no head is running here: there is no {path}; "
                "start the program that listens, with Executor(listen=...), first"
            )
        return read_access(path)
    if "://" in str(what):
        return _find_by_address(parse_address(str(what)), role)
    return read_access(Path(what).expanduser())


def _find_by_address(address: Address, role: Role) -> Access:
    for path in sorted(state_directory().glob(f"*/{role}.json")):
        # Another cluster's file may be broken or just going away; it is not the one that was asked for.
        with contextlib.suppress(HeadLostError, AuthenticationError, ValueError):
            access = read_access(path)
            if access.address == address:
                return access
    raise HeadLostError(
        f"no access file for {address} under {state_directory()}; give the path of one, from the machine of the head"
    )


def read_access(path: Path) -> Access:
    """Read one access file, after seeing that only its owner, us, could have read or written it."""
    text = _read_private(path)
    try:
        content = json.loads(text)
        version = content["version"]
        if version == _VERSION:
            return Access(parse_address(content["address"]), content["cluster"], bytes.fromhex(content["secret"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"{path} is not an access file, or a damaged one") from None
    raise ValueError(f"{path} is an access file of version {version!r}; this grainlike reads version {_VERSION}")


def _read_private(path: Path) -> str:
    try:
        # Without O_NONBLOCK a FIFO in the file's place would hold us for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise HeadLostError(f"no access file at {path}: the head has closed, or never was") from None
    except OSError as error:
        raise AuthenticationError(f"cannot read the access file {path}: {error.strerror}") from None
    try:
        _check_private(path, os.fstat(handle))
    except AuthenticationError:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        return file.read(_SIZE_LIMIT).decode("utf-8", "replace")


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise AuthenticationError(f"{path} is not a regular file; an access file must be one")
    if status.st_uid != os.geteuid():
        raise AuthenticationError(
            f"{path} belongs to user id {status.st_uid}, not to us ({os.geteuid()}): make your own copy of it"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise AuthenticationError(f"{path} is open to other users; close it with: chmod 600 {path}")
