"""Validated arguments of `Executor`, and the refusal of others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from grainlike.executor._embedded import offer_for, store_limits_for
from grainlike.resources import KINDS, Allocation, Request
from grainlike.wire import LOST_S

if TYPE_CHECKING:
    from grainlike.backends import Backend, BackendAdapter
    from grainlike.executor._pools import Launch
    from grainlike.launch import WorkerPool
    from grainlike.telemetry import CallObserver

__all__ = ["NOT_GIVEN", "NotGiven", "Settings", "moment_of", "refuse_attribute", "refuse_options", "settings_for"]


OBSERVERS = "GRAINLIKE_OBSERVERS"
"""Variable of the environment with names of observers; `telemetry` reads it."""

_NUMBERS = ("max_workers", "n_workers", "num_workers", "num_cpus", "n_jobs", "processes")
"""Options of others that say how many calls run at the same time."""

_METHODS = {
    "map": "`await gather((fn @ Cores(1))(x) for x in xs)`, or `amap(fn @ Cores(1), xs)`",
    "shutdown": "`await ex.aclose()`; `async with` does it",
    "close": "`await ex.aclose()`; `async with` does it",
    "gather": "`await gather(placeholders)`",
    "compute": "`await r_`",
    "persist": "`start(r_)`",
}


class NotGiven:
    """Stands for `local=` not given."""

    def __repr__(self) -> str:
        return "<this process's own cores>"


NOT_GIVEN = NotGiven()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Executor`, checked. `offer` is what the embedded worker offers, with ids; None without one."""

    offer: Allocation | None
    listen: str | None
    access: Path | None
    insecure: bool
    manner: BackendAdapter | None
    fail_fast: bool
    echo: bool
    record: bool | int
    launch: Mapping[str, WorkerPool]
    dashboard: tuple[str, int] | None
    logging: bool
    events: str | PathLike[str] | None = None
    observers: tuple[CallObserver, ...] = ()
    store_limits: object = None
    """Those of the values that the embedded worker keeps."""
    silence_s: float = LOST_S
    """Seconds of silence after which a worker or a client counts as lost."""


def settings_for(
    *,
    local: Request | NotGiven | None,
    listen: str | None,
    access: str | PathLike[str] | None,
    insecure: bool,
    backend: Backend | None,
    on_failure: str,
    echo: bool,
    record: bool | int,
    launch: Launch | None = None,
    dashboard: bool | str = False,
    logging: bool = True,
    events: str | PathLike[str] | None = None,
    observers: Iterable[CallObserver | str] = (),
    store: str | None = None,
    scratch: str | PathLike[str] | None = None,
    scratch_limit: str | None = None,
) -> Settings:
    """Validate the user's arguments and return the settings; raises the errors documented at `Executor`."""
    _check_failure_and_record(on_failure, record)
    pools: Mapping[str, WorkerPool] = {} if launch is None else _pools(launch)
    if launch is not None and backend is None and listen is None:
        listen = "tcp://0.0.0.0:0"
    _check_endpoint(listen, access, insecure=insecure)
    if backend is not None:
        _check_without_head(local, listen, pools, events)
    manner = None if backend is None else _adapted(backend)
    offer = _offer(local, alone=listen is None and backend is None)
    wishes = store, scratch, scratch_limit
    if offer is None and any(wish is not None for wish in wishes):
        raise ValueError("store=, scratch= and scratch_limit= are of the embedded worker, and there is none")
    return Settings(
        offer=offer,
        store_limits=None if offer is None else store_limits_for(offer, *wishes),
        listen=listen,
        access=None if access is None else Path(access),
        insecure=insecure,
        manner=manner,
        fail_fast=on_failure == "fail_fast",
        echo=echo,
        record=record,
        launch=pools,
        dashboard=_dashboard(dashboard, has_head=backend is None),
        logging=logging,
        events=events,
        observers=_observers(observers),
    )


def _pools(launch: Launch) -> Mapping[str, WorkerPool]:
    from grainlike.executor._pools import named_pools  # programs without pools do without

    return named_pools(launch)


def _adapted(backend: Backend) -> BackendAdapter:
    from grainlike.backends import BackendAdapter  # programs without do without

    return BackendAdapter(backend)


def _observers(asked: Iterable[CallObserver | str]) -> tuple[CallObserver, ...]:
    if not asked and not os.environ.get(OBSERVERS):
        return ()
    from grainlike.telemetry import find_observers  # programs without do without

    return find_observers(asked)


def _dashboard(wanted: bool | str, *, has_head: bool) -> tuple[str, int] | None:
    """Return host and port of the dashboard; None without one."""
    if wanted is False:
        return None
    if not has_head:
        raise ValueError("backend= runs the jobs elsewhere, where no dashboard sees them: leave out dashboard=")
    from grainlike.dashboard import DEFAULT_ADDRESS, Dashboard, read_address  # programs without pages do without

    assert isinstance(Dashboard, type)  # loaded here: the caller is told at once that packages are missing
    if wanted is True:
        return DEFAULT_ADDRESS
    if not isinstance(wanted, str):
        raise TypeError(f"dashboard= is True, or an address such as '127.0.0.1:8787', not {wanted!r}")
    return read_address(wanted)


def _check_failure_and_record(on_failure: str, record: bool | int) -> None:
    if on_failure not in ("fail_fast", "continue"):
        raise ValueError(f"on_failure= is 'fail_fast' or 'continue', not {on_failure!r}")
    if not isinstance(record, int) or record < 0:
        raise ValueError(f"record= is True, or how many jobs are to be kept, not {record!r}")


def _check_endpoint(listen: str | None, access: str | PathLike[str] | None, *, insecure: bool) -> None:
    if listen is not None and not isinstance(listen, str):
        raise TypeError(f"listen= is an address such as 'tcp://127.0.0.1:0', not {listen!r}")
    if listen is None and (access is not None or insecure):
        raise ValueError("access= and insecure= say how workers connect: they go with listen=")
    if access is not None and insecure:
        raise ValueError("access= brings certificates, and insecure= does without: leave one of them out")


def _check_without_head(
    local: Request | NotGiven | None,
    listen: str | None,
    pools: Mapping[str, WorkerPool],
    events: str | PathLike[str] | None,
) -> None:
    """Refuse what is of a head and its workers, where `backend=` runs the jobs."""
    if pools:
        raise ValueError("backend= runs the jobs elsewhere: leave out launch=")
    if listen is not None or not (local is None or isinstance(local, NotGiven)):
        raise ValueError("backend= runs the jobs elsewhere: leave out local= and listen=")
    if events is not None:
        raise ValueError("events= are those of a head, and with backend= there is none")


def _offer(local: Request | NotGiven | None, *, alone: bool) -> Allocation | None:
    """Return the embedded worker's offer. By default it is this process's own cores if it is the only worker
    (`alone`), else None.
    """
    if isinstance(local, NotGiven):
        return offer_for(None) if alone else None
    return None if local is None else offer_for(local)


def moment_of(since: datetime | timedelta | float | None) -> float:
    """Return a moment as `time.time()` has it; 0 for none."""
    if isinstance(since, timedelta):
        return time.time() - since.total_seconds()
    return since.timestamp() if isinstance(since, datetime) else float(since or 0)


def refuse_options(unknown: Mapping[str, object]) -> NoReturn:
    """Refuse `Executor(max_workers=2)`, and every other option that there is not.

    Raises:
        TypeError: always; with the right spelling where cores or another resource was meant.
    """
    name, value = next(iter(unknown.items()))
    kind = KINDS.get(name)
    word = "Cores" if name in _NUMBERS else kind and kind.word
    amount = value if word != "Cores" or (type(value) is int and value > 0) else None
    hint = f": write Executor(local={word}({amount!r}))" if word and amount is not None else ""
    raise TypeError(f"Executor() got an unexpected keyword argument {name!r}{hint}")


def refuse_attribute(executor: object, name: str) -> NoReturn:
    """Refuse `ex.map(fn, xs)`, and every other attribute that there is not.

    Raises:
        AttributeError: always; with the right spelling for methods of other executors.
    """
    hint = f": write {_METHODS[name]}" if name in _METHODS else ""
    raise AttributeError(f"{type(executor).__name__!r} object has no attribute {name!r}{hint}")
