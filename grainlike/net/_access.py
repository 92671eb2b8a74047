"""Access files: how the processes of a cluster learn where the head is, and prove that they belong to it.

`STATE/CLUSTER/ROLE.json`, readable by its owner alone, with `STATE/current` a symlink to the newest cluster's folder.
Beside them a head holds a lock, so that the next one sees which files are those of a head that was killed. The kernel
frees it with its holder's last descriptor, however that ended. It is not visible to other machines (not every network
file system carries it), so the file names the one where it is meaningful.

`STATE/journals/CLUSTER` is a symlink to the journal of a head that keeps one, and stays until its work has ended: so
who finds that head no more learns how it goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net._address import Address, parse_address
from grainlike.net._certificates import ROLES, Credentials, Role
from grainlike.net._guard import make_private_directory, state_directory

__all__ = [
    "Access",
    "accesses_for",
    "current_folder",
    "find_access",
    "forget_journal",
    "has_journal_note",
    "hold_lock",
    "how_to_go_on",
    "is_left_behind",
    "is_locked",
    "journal_left_behind",
    "left_behind",
    "move_access",
    "note_journal",
    "publish_access",
    "read_access",
    "remove_left_behind",
    "withdraw_access",
    "write_access",
]

_VERSION = 1
_SIZE_LIMIT = 64 * 1024
_CURRENT = "current"
_JOURNALS = "journals"
_LOCK = "head.lock"
"""Name of the lock's file, in the folder of a cluster whose files are the head's own."""
_CLUSTER = re.compile(r"(?!current$)[A-Za-z0-9]([A-Za-z0-9-]{0,38}[A-Za-z0-9])?")


class Access(msgspec.Struct, frozen=True):
    """Access of `role` to a cluster: the head's addresses, and the credentials of that role.

    `addresses` are all the same head's, in the order in which to try them; there are none before it has listened for
    the first time. `credentials` are None where TLS has no part: on Unix sockets, or where it was declined.
    """

    cluster: str
    role: Role
    addresses: tuple[Address, ...]
    credentials: Credentials | None = None

    def __post_init__(self) -> None:
        if not _CLUSTER.fullmatch(self.cluster):
            raise ValueError(f"a cluster's name is up to 40 letters, digits and '-', not {self.cluster!r}")
        if self.role not in ROLES:
            raise ValueError(f"a role is one of {', '.join(ROLES)}, not {self.role!r}")


def accesses_for(
    cluster: str, addresses: tuple[Address, ...], credentials: Mapping[Role, Credentials] | None = None
) -> list[Access]:
    """Return the access of every role of one cluster.

    Example::

        publish_access(accesses_for("c1", (listener.address,), make_credentials("c1")))
    """
    return [Access(cluster, role, addresses, credentials[role] if credentials else None) for role in ROLES]


def publish_access(accesses: list[Access], *, beside: bool = False) -> Path:
    """Write the files of all roles into the cluster's folder, make it the current one, and return the folder.

    With `beside`, a head that lives and is the current one stays so.
    """
    state = state_directory()
    cluster = accesses[0].cluster
    for access in accesses:
        write_access(access, state / cluster / f"{access.role}.json")
    if beside and current_folder() is not None:
        return state / cluster
    _make_current(state, cluster)
    return state / cluster


def _make_current(state: Path, cluster: str) -> None:
    # A symlink cannot be replaced in place; a new one renamed over it can.
    fresh = state / f".{_CURRENT}.{os.urandom(8).hex()}"
    fresh.symlink_to(cluster)
    fresh.replace(state / _CURRENT)


def current_folder() -> Path | None:
    """Return the folder of the current head's files; None without one, or when it was killed."""
    folder = (state_directory() / _CURRENT).resolve()
    return folder if folder.name != _CURRENT and folder.exists() and not is_left_behind(folder) else None


def withdraw_access(cluster: str) -> None:
    """Remove what `publish_access` wrote. If `current` names this cluster it goes, too, or names the one other head
    that is left; of several none is chosen. Missing files are no error.
    """
    state = state_directory()
    folder = state / cluster
    was_current = False
    with contextlib.suppress(OSError):
        was_current = (state / _CURRENT).readlink() == Path(cluster)
        if was_current:
            (state / _CURRENT).unlink()
    for name in (*(f"{role}.json" for role in ROLES), _LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
    others = _others("worker") if was_current else []
    if len(others) == 1:
        _make_current(state, Path(others[0]).parent.name)


def remove_left_behind() -> list[str]:
    """Remove the files of heads of this machine that were killed, as they would have done; return their clusters."""
    found = [folder.name for folder in left_behind()]
    for cluster in found:
        withdraw_access(cluster)
    return found


def note_journal(cluster: str, directory: Path) -> None:
    """Write down where the head of a cluster keeps its journal, for those that find that head no more."""
    folder = state_directory() / _JOURNALS
    make_private_directory(folder.parent)
    make_private_directory(folder)
    fresh = folder / f".{cluster}.{os.urandom(8).hex()}"
    fresh.symlink_to(directory)
    fresh.replace(folder / cluster)


def forget_journal(directory: Path) -> None:
    """Remove the notes of a journal in which nothing is left."""
    for note in (state_directory() / _JOURNALS).glob("*"):
        with contextlib.suppress(OSError):
            if note.readlink() == directory:
                note.unlink()


def has_journal_note(cluster: str, directory: Path) -> bool:
    """Return True if it is written down that the head of a cluster keeps its journal in `directory`, with something in
    it.
    """
    with contextlib.suppress(OSError):
        return (state_directory() / _JOURNALS / cluster).readlink() == directory
    return False


def how_to_go_on(cluster: str | None = None) -> str:
    """Return a clause that names the journal of the head of a cluster, or, with None, of the head that began last among
    those that run no more; empty without one. With a cluster, it may say that a head has that journal already.
    """
    if cluster is None:
        left = journal_left_behind()
        return f"{left.head} kept a journal: `{left.command}` goes on with its work" if left else ""
    note = state_directory() / _JOURNALS / cluster
    with contextlib.suppress(OSError):
        if os.path.isdir(note):  # noqa: PTH112 - Path.is_dir may raise
            if is_locked(note):
                return "a head goes on with its work already: try again, or with a new copy of its access file"
            return f"it kept a journal: `{LeftJournal(note.readlink()).command}` goes on with its work"
    return ""


class LeftJournal(NamedTuple):
    """Journal of a head that runs no more, and when that was started, in seconds since 1970."""

    directory: Path
    began: float = 0.0

    @property
    def head(self) -> str:
        """The head, in words."""
        return f"an earlier head, started {time.strftime('%Y-%m-%d %H:%M', time.localtime(self.began))},"

    @property
    def command(self) -> str:
        """The command that goes on with its work."""
        import shlex

        return f"grainlike head start --journal {shlex.quote(str(self.directory))}"


def journal_left_behind() -> LeftJournal | None:
    """Return the journal of the head that began last among those that run no more; None without one."""
    found: list[LeftJournal] = []
    for note in (state_directory() / _JOURNALS).glob("[!.]*"):
        # A note may go just now, and the journal be where we cannot look: neither is a reason to say nothing else.
        with contextlib.suppress(OSError):
            if os.path.isdir(note) and not _lives(note.name) and not is_locked(note):  # noqa: PTH112
                found.append(LeftJournal(note.readlink(), note.lstat().st_mtime))
    return max(found, key=lambda left: left.began, default=None)


def is_locked(directory: Path) -> bool:
    """Return True if a process of this machine has locked a file there, as a head does in its journal.

    The kernel's list is read: a lock taken to see, for a moment, would refuse a head that begins just then. On file
    systems that show another device there than in the list, a lock is not seen.
    """
    with contextlib.suppress(OSError):
        locks = {line.split()[-3] for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()}
        with os.scandir(directory) as files:
            for file in files:
                status = file.stat(follow_symlinks=False)
                name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
                if name in locks:
                    return True
    return False


def _lives(cluster: str) -> bool:
    folder = state_directory() / cluster
    return folder.exists() and not is_left_behind(folder)


def left_behind() -> list[Path]:
    """Return the folders of heads of this machine that died without removing them."""
    folders = sorted(path.parent for path in state_directory().glob(f"*/{_LOCK}"))
    return [folder for folder in folders if not folder.is_symlink() and is_left_behind(folder)]


def move_access(folder: Path, cluster: str, addresses: tuple[Address, ...]) -> None:
    """Write the head's current addresses into those of the cluster's files that are in `folder`; missing ones are
    left.

    Raises as `read_access` does for a file that is there and cannot be believed.
    """
    for role in ROLES:
        path = folder / f"{role}.json"
        if path.exists():
            access = read_access(path)
            if access.cluster == cluster and access.addresses != addresses:
                write_access(replace(access, addresses=addresses), path)


def write_access(access: Access, path: Path) -> None:
    """Write one file, mode 0600, in a private directory; readers see the old one or the new one, never a part."""
    state = state_directory()
    if state in path.parents:  # made on the way to a folder in it, it would be open to others
        make_private_directory(state)
    make_private_directory(path.parent)
    text = json.dumps(_content(access), indent=1)
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def find_access(what: str | Path | None = None, role: Role = "worker") -> Access:
    """Find the access file of `what`: an address, a file, or (None) the current head's.

    Raises `HeadLostError` when there is none, `AuthenticationError` when other users could have read or written it, and
    `ValueError` when it is no access file.

    Example::

        link = await dial(find_access())
    """
    if what is None:
        path = state_directory() / _CURRENT / f"{role}.json"
        if not path.exists():
            others = _others(role)
            if others:
                raise HeadLostError(
                    "there is no current head, as the one that began last has ended, but these of yours run: "
                    f"{', '.join(others)}; name one with --head, or in connect()"
                )
            goes_on = how_to_go_on()
            raise HeadLostError(
                f"no head is running here: there is no {path}; "
                + (f"{goes_on}; or " if goes_on else "")
                + "start one with `grainlike head start`, or the program that listens, with Executor(listen=...)"
            )
        return read_access(path)
    if "://" in str(what):
        return _find_by_address(parse_address(str(what)), role)
    path = Path(what).expanduser()
    is_there = os.path.exists(path)  # noqa: PTH110 - it raises for no name that is too long
    if ":" in path.name and not is_there:
        shown = _short(what)
        raise HeadLostError(f"no access file at {shown}; if it is an address, write tcp://{shown}")
    if path.name == str(what) and not path.suffix and not is_there:
        shown = _short(what)
        raise HeadLostError(f"no access file at {shown}; an address is written tcp://HOST:PORT or unix:///PATH")
    return read_access(path)


def _short(given: object) -> str:
    from grainlike._shown import shortened  # few files are missing

    return shortened(str(given))


def _others(role: Role) -> list[str]:
    """Return the access files of the other heads, the newest first, where none of them is the current one."""
    files = sorted(state_directory().glob(f"*/{role}.json"), key=_written_at, reverse=True)
    return [str(path) for path in files if not (path.parent.is_symlink() or is_left_behind(path.parent))]


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # its head closes just now
        return 0.0


def _find_by_address(address: Address, role: Role) -> Access:
    for path in sorted(state_directory().glob(f"*/{role}.json")):
        # Another cluster's file may be broken or just going away; it is not the one that was asked for.
        with contextlib.suppress(HeadLostError, AuthenticationError, ValueError):
            access = read_access(path)
            if address in access.addresses:
                return access
    raise HeadLostError(
        f"no access file for {_short(address)} under {state_directory()}: no head of yours listens there, "
        "or one on another machine does; start one with `grainlike head start`, or give the path of its access file, "
        "copied from there"
    )


def read_access(path: Path) -> Access:
    """Read one access file, after seeing that only its owner, us, could have read or written it."""
    text = _read_private(path)
    try:
        content = json.loads(text)
        version = content["version"]
        if version == _VERSION:
            return _access(content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"{path} is not an access file, or a damaged one") from None
    raise ValueError(f"{path} is an access file of version {version!r}; this grainlike reads version {_VERSION}")


def _content(access: Access) -> dict[str, Any]:
    """Return the file's JSON. Without TLS the last three are null."""
    proof = access.credentials
    return {
        "version": _VERSION,
        "cluster": access.cluster,
        "role": access.role,
        "addresses": [str(address) for address in access.addresses],
        "authority": proof.authority if proof else None,
        "certificate": proof.certificate if proof else None,
        "key": proof.key if proof else None,
    }


def _access(content: dict[str, Any]) -> Access:
    proof = [content[name] for name in ("authority", "certificate", "key")]
    if not (all(isinstance(text, str) for text in proof) or proof == [None, None, None]):
        raise ValueError("certificate and key go together")
    addresses = tuple(parse_address(address) for address in content["addresses"])
    return Access(content["cluster"], content["role"], addresses, None if proof[0] is None else Credentials(*proof))


def _read_private(path: Path) -> str:
    try:
        # Without O_NONBLOCK a FIFO in the file's place would hold us for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise HeadLostError(f"no access file at {_short(path)}: the head has closed, or never was") from None
    except OSError as error:
        raise AuthenticationError(f"cannot read the access file {_short(path)}: {error.strerror}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise AuthenticationError(f"{path} is not a regular file; an access file must be one")
    with os.fdopen(handle, "rb") as file:
        text = file.read(_SIZE_LIMIT + 1)
    if len(text) > _SIZE_LIMIT:
        raise ValueError(f"{path} is not an access file: it has over {_SIZE_LIMIT} bytes")
    if b'"version"' not in text:  # before anything is said of its mode: it may be any file of the system
        raise ValueError(f"{path} is not an access file, or a damaged one")
    _check_private(path, status)
    return text.decode("utf-8", "replace")


def _check_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise AuthenticationError(
            f"{path} belongs to user id {status.st_uid}, not to us ({os.geteuid()}): make your own copy of it"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise AuthenticationError(f"{path} is open to other users; close it with: chmod 600 {path}")


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock that shows that the head whose files are in `folder` lives. The file is removed at the end.

    Where the file system has no locks there is none, and the head is never taken for dead.
    """
    fresh, path = folder / f".{_LOCK}.{os.urandom(8).hex()}", folder / _LOCK
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(handle, socket.gethostname().encode())
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh.replace(path)  # locked before another process sees it
        except OSError:
            fresh.unlink(missing_ok=True)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def is_left_behind(folder: Path) -> bool:
    """Return True if the head whose files are in `folder` died without removing them; False where that cannot be
    seen.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(handle).st_uid != os.geteuid() or os.read(handle, 300).decode() != socket.gethostname():
                return False
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        finally:
            os.close(handle)
        return True
    return False
