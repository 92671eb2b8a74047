"""`replicate`: more than one replica of values that stay at workers, or a copy elsewhere, so that none is lost with its
worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from functools import lru_cache
from typing import Any, Literal, overload

import anyio

from grainlike.engine import copy_made, least_request, replicate_values, staying_values
from grainlike.errors import ResourceError
from grainlike.graph import Delayed, DelayedFn, Function, Node, RemoteValue, delayed_value, gather, node_of
from grainlike.maps._wait import listed, wait

__all__ = ["replicate"]

_EVERYWHERE = 0

_MOST = 1 << 30
"""Number of replicas that stands for any larger one: more workers than a head can have."""


@overload
async def replicate(
    placeholders: Delayed[Any] | Iterable[Delayed[Any]], copies: int | Literal["all"], /, *, to: str | None = None
) -> None: ...
@overload
async def replicate(placeholders: Delayed[Any] | Iterable[Delayed[Any]], /, *, to: str) -> None: ...
async def replicate(
    placeholders: Delayed[Any] | Iterable[Delayed[Any]], copies: Any = None, /, *, to: str | None = None
) -> None:
    """Keep at least so many replicas of the value of a placeholder, or of each of several in one iterable; or a copy
    of it at a URL, which no worker's loss can take.

    It starts what has not been started, and returns when all have ended and there are as many replicas as were asked
    for, or as there are workers that may have one. From then on they are made good when a worker goes, as long as
    something needs the value. A worker whose store could never hold it counts as none, of which a warning tells; where
    there is no room now, it waits for that, and `explain` of the value says so. The larger of two numbers that were
    asked for one value counts. Of a small value, and of one that only the program has, nothing is done: no worker can
    lose it. An operator, or a part of a call with `nout=`, that no job has needed is such a value: it is taken in the
    program, after a fetch of the whole. Ask for replicas of the whole instead, or begin a job that needs the part
    before. Of `gather`, the values in it are meant.

    With `to` a job writes the value to a file below that URL, by fsspec, and another reads it back. Each has one core,
    or, where the request of the call that made the value has none, that request. `replicate` returns when what was read
    is right. No byte passes the head. From then on a value that is lost with all its workers is read from there by a
    job when it is needed, and its function does not run again; if that fails, what holds without a copy does. Every
    worker should reach the URL, and have `grainlike[fsspec]`, as the program has. The file stays when the value is
    needed no more: the place is yours, so remove it when the program has ended.

    Being cancelled in it cancels calls that nothing else awaits, as with `wait`; values that are there stay as they
    are, and replicas that were asked for are made.

    Args:
        placeholders: a placeholder, or an iterable of them.
        copies: how many replicas, at least 1; `"all"` for one at every worker, also at those that come later. May be
            left out where there is a `to`.
        to: a URL of fsspec, such as `s3://bucket/run7` or `file:///shared/run7`. A `file:` URL is as `Path.as_uri()`
            has it: with `%20` for a space, and `%25` for a percent sign. All others are fsspec's own.

    Raises:
        TypeError: one of them is not a placeholder, or `copies` not a number, or `to` no text.
        ValueError: `copies` is less than 1, or another text than `"all"`; `to` is no URL, has a scheme that is not
            known, or is in the memory of one process (`memory://`); or the path of a file is no UTF-8, or has a `::`.
        ModuleNotFoundError: fsspec is missing, or what it needs for this scheme; says what to install.
        OSError: the copy cannot be written or read: no rights, no room; says where and why. The value stays as it is.
        ValueLostError: the value of one is lost, and cannot be made again; or its executor has closed.
        RuntimeError: there is no executor here.
        GraphError: one was started by another executor, and has not finished; or, with `to`, has its value there.
        Whatever a call raised, as it is: of the first that failed.

    Example::

        model_ = (train @ Cores(8))(data)
        await replicate(model_, 2)               # one worker may go, and nothing runs again
        await replicate([left_, right_], "all")
        await replicate(model_, to="s3://bucket/run7")
    """
    if copies is None and to is None:
        raise TypeError(
            'replicate takes a number of replicas, or "all", not nothing: replicate(r_, 2), or a URL for a copy: '
            'replicate(r_, to="s3://bucket/run7")'
        )
    count = None if copies is None else _count(copies)
    if to is not None:
        from grainlike.calls import check_url, unescaped  # programs without do without

        check_url(to)
        to = unescaped(to)
    items = [placeholders] if isinstance(placeholders, Delayed) else listed(placeholders, "replicate")
    nodes = [node_of(item) for item in items]
    await wait(items)
    for node in nodes:
        if node.error is not None:
            node.result()
    if count is not None:
        await _keep(nodes, count)
    if to is not None:
        await _copy_to_url(nodes, to)


async def _keep(nodes: list[Node], count: int) -> None:
    """Keep so many replicas of the values of nodes that have finished, and wait for them."""
    reached = anyio.Event()
    waiting = replicate_values(nodes, count, reached.set)
    if not waiting.ended:
        try:
            await reached.wait()
        finally:
            waiting.cancel()
    if waiting.error is not None:
        raise waiting.error


def _count(copies: object) -> int:
    """Return the number of replicas that is meant; 0 for one at every worker."""
    if not isinstance(copies, int | str) or isinstance(copies, bool):
        hint = ": several placeholders go in a list" if isinstance(copies, Delayed) else ""
        raise TypeError(f'replicate takes a number of replicas, or "all", not {type(copies).__name__}{hint}')
    if copies == "all":
        return _EVERYWHERE
    if isinstance(copies, str) or copies < 1:
        raise ValueError(f'replicate takes a number of replicas from 1 on, or "all", not {copies!r}')
    return min(copies, _MOST)


@lru_cache(maxsize=256)
def _copying(maker: str) -> tuple[DelayedFn[..., Any], DelayedFn[..., Any]]:
    """Return the functions of jobs that write and read a copy of a value, which a call of `maker` has made."""
    from grainlike.calls import read_copy, write_copy

    writing = Function(write_copy, name=f"copy of {maker}", internal=True)
    return DelayedFn(writing), DelayedFn(Function(read_copy, name=f"reading the copy of {maker}", internal=True))


async def _copy_to_url(nodes: Iterable[Node], url: str) -> None:
    """Write the values of nodes that have finished to files below a URL, read each back, and have it read from there
    whenever it is needed and lost.

    Raises:
        ValueLostError: the executor of one has closed.
        OSError, SerializationError: one cannot be written, or read back as it was written.
        ResourceError: the bytes that were read back do not stay at workers, so nothing could be made of them there.
    """
    makers = {value: node for node in nodes for value in staying_values([node])}
    writes, reads = dict[RemoteValue, Delayed[Any]](), dict[RemoteValue, Delayed[Any]]()
    for value, node in makers.items():
        write, maker = _copying(node.function.name)[0], node.function.name
        writes[value] = (write @ least_request(node.request))(delayed_value(value), url, maker)
    copies = dict(zip(writes, await gather(writes.values()), strict=True))
    for value, node in makers.items():
        reads[value] = (_copying(node.function.name)[1] @ least_request(node.request))(astuple(copies[value]))
    await wait(reads.values())
    for value, read_ in reads.items():
        copy_made(value, _read_back(read_, url), copies[value].url)


def _read_back(read_: Delayed[Any], url: str) -> RemoteValue:
    node = node_of(read_)
    if node.error is not None:
        node.result()
    if not isinstance(node.reference, RemoteValue):
        raise ResourceError(f"a copy at {url} was read back by a worker that keeps no values, so none could use it")
    return node.reference
