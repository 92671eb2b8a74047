"""Endpoint of a head: its address, certificates, and the access files that hold both."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from grainlike.errors import GrainlikeError
from grainlike.net import (
    ROLES,
    Access,
    Address,
    Credentials,
    Listener,
    TcpAddress,
    Tls,
    accesses_for,
    addresses_of,
    find_access,
    hold_lock,
    listen,
    make_credentials,
    move_access,
    parse_address,
    publish_access,
    remove_left_behind,
    server_tls,
    withdraw_access,
    write_access,
)

__all__ = ["Endpoint", "listened_at", "open_durable_endpoint", "open_endpoint"]

logger = logging.getLogger("grainlike")

_MOST_ADDRESSES = 16
"""Most addresses in an access file. Heads that moved leave old addresses behind; peers try them in turn."""


class Endpoint(msgspec.Struct, frozen=True):
    """Open endpoint: `address` is where workers connect, with the access file `worker_access`. `withdraw` removes the
    access files.

    They are removed before connections are closed: no peer whose connection has ended may find the head by them.
    """

    listener: Listener
    cluster: str
    address: Address
    worker_access: Path
    withdraw: Callable[[], None]


@contextmanager
def open_endpoint(
    at: str, prepared: Path | None = None, *, insecure: bool = False, beside: bool = False
) -> Iterator[Endpoint]:
    """Listen at `at`, as the head of the cluster of `prepared`, or of a new one whose files are removed at the end.

    With `beside`, another head that is the current one stays so.

    Raises as `Executor`.
    """
    where = parse_address(at)
    if insecure:
        _warn(where)
    if prepared is not None:
        with _prepared(where, prepared) as endpoint:
            yield endpoint
        return
    cluster = secrets.token_hex(6)
    credentials = make_credentials(cluster) if isinstance(where, TcpAddress) and not insecure else None
    with listen(where, tls=_tls(cluster, credentials["head"] if credentials else None)) as listener:
        addresses = addresses_of(listener.address)
        try:
            for dead in remove_left_behind():
                logger.info("removed the access files of cluster %s, whose head was killed", dead)
            published = publish_access(accesses_for(cluster, addresses, credentials), beside=beside)
            with hold_lock(published):
                yield Endpoint(
                    listener, cluster, addresses[0], published / "worker.json", partial(withdraw_access, cluster)
                )
        finally:
            withdraw_access(cluster)


@contextmanager
def open_durable_endpoint(at: str, folder: Path, *, insecure: bool = False) -> Iterator[Endpoint]:
    """Listen as the head whose access files are in `folder`, at its old port if `at` leaves that open.

    The first time the files are made. They stay; those that name the current head do not.

    Raises as `Executor`.
    """
    where = parse_address(at)
    if insecure:
        _warn(where)
    if not (folder / "head.json").exists():
        cluster = secrets.token_hex(6)
        credentials = make_credentials(cluster) if isinstance(where, TcpAddress) and not insecure else None
        for access in reversed(accesses_for(cluster, (), credentials)):  # the head's comes last: then all are there
            write_access(access, folder / f"{access.role}.json")
    _check_complete(folder)
    own = find_access(folder / "head.json")
    if (own.credentials is None) != (insecure or not isinstance(where, TcpAddress)):
        raise ValueError(f"{folder} is of a head that listened in another way: with TLS, or without")
    with _listen_again(where, own) as listener:
        addresses = addresses_of(listener.address)
        move_access(folder, own.cluster, addresses)
        try:
            remove_left_behind()
            with hold_lock(publish_access([find_access(folder / f"{role}.json") for role in ROLES])):
                yield Endpoint(
                    listener,
                    own.cluster,
                    addresses[0],
                    folder / "worker.json",
                    partial(withdraw_access, own.cluster),
                )
        finally:
            withdraw_access(own.cluster)


def listened_at(folder: Path) -> str | None:
    """Return where the head listened whose access files are in `folder`, with any port; None where that was on all
    interfaces, or there has been none.
    """
    with suppress(OSError, ValueError, GrainlikeError):  # what is wrong with it is raised when it is opened
        addresses = find_access(folder / "head.json").addresses
        if len(addresses) == 1:  # all interfaces have several
            [address] = addresses
            return str(replace(address, port=0) if isinstance(address, TcpAddress) else address)
    return None


def _check_complete(folder: Path) -> None:
    """Raise if some of a cluster's files are missing: they cannot be made again without the authority's key."""
    missing = [f"{role}.json" for role in ROLES if not (folder / f"{role}.json").exists()]
    if missing:
        raise FileNotFoundError(
            f"{' and '.join(missing)} of {folder} is missing: bring it back from where it was copied; or remove that "
            "folder, and a new cluster begins, to which no worker and no client of this one finds its way"
        )


def _listen_again(where: Address, own: Access) -> AbstractContextManager[Listener]:
    """Listen at the address that earlier peers of this head have, unless it is in use now."""
    tls = _tls(own.cluster, own.credentials)
    if isinstance(where, TcpAddress) and where.port == 0:
        for port in dict.fromkeys(address.port for address in own.addresses if isinstance(address, TcpAddress)):
            try:
                return listen(replace(where, port=port), tls=tls)
            except OSError as error:
                words = "this head listened at port %d (%s): who has copies of its access files needs new ones"
                logger.warning(words, port, error)
    return listen(where, tls=tls)


@contextmanager
def _prepared(where: Address, path: Path) -> Iterator[Endpoint]:
    access = find_access(path)
    if access.role != "head":
        raise ValueError(f"{path} is the access file of a {access.role}; to listen takes the head.json beside it")
    with listen(where, tls=_tls(access.cluster, access.credentials)) as listener:
        addresses = _with_known(addresses_of(listener.address), access.addresses)
        move_access(path.expanduser().parent, access.cluster, addresses)
        worker_access = path.expanduser().absolute().parent / "worker.json"
        yield Endpoint(listener, access.cluster, addresses[0], worker_access, lambda: None)  # these files stay


def _with_known(own: tuple[Address, ...], known: tuple[Address, ...]) -> tuple[Address, ...]:
    """Return our own addresses, and those that were given for this port: there may be routes that only people know
    of.
    """
    ports = {address.port for address in own if isinstance(address, TcpAddress)}
    given = [address for address in known if isinstance(address, TcpAddress) and address.port in ports]
    return tuple(dict.fromkeys([*own, *given]))[:_MOST_ADDRESSES]


def _tls(cluster: str, credentials: Credentials | None) -> Tls | None:
    return None if credentials is None else server_tls(cluster, credentials)


def _warn(where: Address) -> None:
    if not (isinstance(where, TcpAddress) and where.is_loopback):
        raise PermissionError(f"insecure= is for a loopback address, as tcp://127.0.0.1:0; {where} is none")
    logger.warning("INSECURE: %s has no TLS; everybody who can log in to this machine can run code as you", where)
