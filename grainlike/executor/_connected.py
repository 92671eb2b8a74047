"""`connect`: an executor whose jobs run on the workers of a head elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from logging import Logger
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from grainlike._shown import shortened
from grainlike.client import ConnectionSettings, RemoteHead
from grainlike.engine import retrieved_elsewhere
from grainlike.errors import GrainlikeError, GraphError, SessionError
from grainlike.executor._executor import Executor
from grainlike.graph import Delayed, Info, Node, RunsIn, State, StreamNode, excuse, node_behind, unfinished_nodes
from grainlike.joblogging import JobLogging
from grainlike.net import RETURN_S
from grainlike.wire import MOST_NAMES

if TYPE_CHECKING:
    from grainlike.executor._job_service import JobService
    from grainlike.telemetry import CallObserver

__all__ = ["ConnectedExecutor", "connect"]

T = TypeVar("T")

NAME_LIMIT = 255
"""Most characters of a name."""


def connect(
    address: str | PathLike[str] | None = None,
    *,
    insecure: bool = False,
    on_failure: Literal["fail_fast", "continue"] = "fail_fast",
    session: str | None = None,
    patience: float = RETURN_S,
    wait: float = 0.0,
    reconnect: bool = False,
    echo: Logger | Literal[False] | None = None,
    logging: bool = True,
    observers: Iterable[CallObserver | str] = (),
) -> ConnectedExecutor:
    """Connect to a running head: `async with connect() as ex` is an `Executor` whose jobs run on that head's workers.

    Several programs may be connected at the same time. They share the workers fairly: the program that uses least goes
    first. `grainlike head start` starts a head; a program with `Executor(listen=...)` is one, too.

    Args:
        address: the head's address (`"tcp://login1:7777"`), or the path of its `client.json`. By default the address in
            the settings, or else the current head of this user, found by its access file.
        insecure: the head listens without TLS, on this machine's loopback.
        on_failure: as for `Executor`.
        session: the name of a session to which the jobs belong, instead of this program. They continue when the program
            leaves or dies, and the next program that names the session finds them (`ConnectedExecutor.name`). One
            program may have the session at a time. The session ends when it has no job, name or outcome left.
        patience: seconds for which a head with a journal may be away, because it was killed and is started again.
        wait: seconds for which the program waits for a head that is not there yet, when the block is entered and, with
            `reconnect`, when the head is lost. By default it does not wait.
        reconnect: continue with the next head when this one is lost. Calls in flight fail with `HeadLostError`. Calls
            that are submitted afterwards wait for the next head, for at most `wait` seconds after the loss. Then they
            fail, and so do new calls, until there is a head. For services that outlive their heads. The first head has
            to come within `wait` seconds all the same: where there is none, the block is not entered.
        echo: a logger that is given each line that this program's jobs print, at level INFO; see docs/logging.md. By
            default none is: `logs` has the output of a job. False, as for `Executor`, also keeps what calls without
            resources print, in this process, off this program's streams.
        logging: as for `Executor`: pass log records of this program's jobs on to its own loggers. Records of a
            session's jobs are dropped while no program has the session; the next program is told how many.
        observers: as for `Executor`.

    Large values of the jobs stay at workers (`docs/data.md`), and are dropped when the program leaves. Those of named
    calls stay until `forget`; if one was lost, it is made again when somebody needs it.

    The connected executor has all methods of `Executor`, but its `events()` are those of this program's jobs. Leaving
    the block cancels the calls that still run, unless they belong to a session, and does not wait until workers have
    ended them. The head does the same when the program dies. Streams end with the program in any case, because no other
    could read them.

    Raises, when it is opened:
        HeadLostError: there is no head, and none came within `wait` seconds.
        AuthenticationError: another head answered, the head refused this program, or others may read the access file.
        VersionMismatchError: the head's Python, serializers or protocol are incompatible with this program's.
        SessionError: another program has this session.
        ValueError: `address` is no address, or not an access file; `session` is no name; or `wait` or `patience` is
            negative.
        TypeError: `echo` is neither a logger nor False; at once, when it is called.

    A connection that breaks is retried for 30 s. Meanwhile jobs continue, new calls wait, and nothing is lost or done
    twice. When the head is lost, calls that wait for it fail with `HeadLostError`, and so do all new calls, unless
    `reconnect` is true.

    Example::

        async with connect() as ex:
            await ex.wait_for_workers(1)
            print(await (square @ Cores(1))(3))
    """
    head = None if address is None else fspath(address)
    return ConnectedExecutor(
        head,
        insecure=insecure,
        on_failure=on_failure,
        session=session,
        patience=patience,
        wait=wait,
        reconnect=reconnect,
        echo=echo,
        logging=logging,
        observers=observers,
    )


class ConnectedExecutor(Executor):
    """Executor whose jobs run at a head that `connect` has reached.

    Args:
        head: the head's address, or the path of its `client.json`; None for the current head of this user.
        insecure: as for `connect`.
        on_failure: as for `Executor`.
        session: name of a session to which the jobs belong; None for this program's own jobs.
        patience: seconds for which a head with a journal may be away.
        wait: seconds for which the program waits for a head that is not there yet.
        reconnect: continue with the next head when this one is lost.
        echo: as for `connect`.
        logging: as for `Executor`.
        observers: as for `Executor`.

    Example::

        async with connect() as ex:
            print(type(ex).__name__, ex.address)
    """

    _made_by = "connect(...)"

    def __init__(
        self,
        head: str | None,
        *,
        insecure: bool = False,
        on_failure: Literal["fail_fast", "continue"] = "fail_fast",
        session: str | None = None,
        patience: float = RETURN_S,
        wait: float = 0.0,
        reconnect: bool = False,
        echo: Logger | Literal[False] | None = None,
        logging: bool = True,
        observers: Iterable[CallObserver | str] = (),
    ) -> None:
        _check_seconds("wait", wait)
        _check_seconds("patience", patience)
        if session is not None:
            check_name(session, "a session")
        logger = _checked_logger(echo)
        shows = echo is not False
        super().__init__(local=None, on_failure=on_failure, echo=shows, logging=logging, observers=observers)
        self._session = session or ""
        self._taken: dict[str, Node] = {}
        """Named calls that were there when this program asked for their names."""
        self._ended_before: set[Node] = set()
        """Named calls that had ended when `report_found` was called, and are not reported yet."""
        self._found: Callable[[Node], object] | None = None
        self._connection = ConnectionSettings(
            head=head,
            insecure=insecure,
            session=self._session,
            patience=patience,
            wait=wait,
            reconnect=reconnect,
            echo=logger,
        )

    def __repr__(self) -> str:
        head = self.address
        return (
            f"<Executor {self._state}, connected to {f'{head} as {self._remote.client_name}' if head else 'no head'}>"
        )

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except GrainlikeError as error:
            # It says all of it: without more of our frames its words stand near the program's line that it is about.
            raise error.with_traceback(None)

    def _make_service(self) -> JobService:
        job_logging = JobLogging(quiet=not self._settings.echo) if self._settings.logging else None
        self._remote = RemoteHead(self._connection, self._engine, self._changes, job_logging)
        return self._remote

    # --- in a named session ------------------------------------------------------------------------------------------

    def name(self, name: str, placeholder: Delayed[T], *, exist_ok: bool = False) -> Delayed[T]:
        """Start a call with resources under a name in this session, and return its placeholder.

        The head keeps its outcome until `forget`, and any program that has the session finds it in `placeholders`.
        The call goes to the head with all that it needs, so its whole graph runs without this program. Where a part of
        that has to stay here, as a call without resources, or was started before, it is sent once its inputs are
        there. One with arguments of 1 MiB or more is sent once two workers have them: `named` tells of it then. A call
        that is cancelled loses its name, and what only it needs is cancelled, too.

        With `exist_ok`, a name that is taken is no error: the placeholder that has it is returned, finished, failed or
        not, as it was called then; the one given here is dropped. So a program that is started again goes on.

        Raises:
            SessionError: the name is taken, without `exist_ok`; the session has 10 000 names; or there is no session.
                Awaiting it raises this, too, where the head has no room for more outcomes, or the name was given
                between two heads and the session has it at the next one.
            GraphError: the placeholder is no call with resources, or has been started already.
            ValueError: an invalid name: it takes 1 to 255 printable characters.

        Example::

            async with connect(session="sweep") as ex:
                r_ = ex.name("fit", (fit @ Cores(4))(data), exist_ok=True)
        """
        node = node_behind(placeholder)
        try:
            self._check_loop("used")
            self._check_session()
            check_name(name, "a call")
            known = self._named(name)
            if exist_ok and known is not None:
                excuse(unfinished_nodes([node]))
                self._taken[name] = node_behind(known)
                self._report_if_found(node_behind(known))
                return known
            self._check_free(name)
        except (RuntimeError, ValueError):
            excuse(unfinished_nodes([node]))  # the error says it all
            raise
        why = _why_nameless(node)
        if why:
            raise GraphError(why)
        self._remote.give_name(name, placeholder, node)
        self.watch(node, retrieved_elsewhere)
        self.start([node])
        return placeholder

    def placeholders(self) -> dict[str, Delayed[Any]]:
        """Return the named calls of this session, from this program or from an earlier one, by name; finished or not.

        They can be awaited, queried and cancelled like any other. The arguments of one that an earlier program
        submitted are not available here. `info` shows one that had ended before as if it had ended when this program
        came: `named` knows the true moments. Outcomes that the head keeps on disk, beyond 128 MiB of the session, are
        fetched when they are awaited or started: until then such a placeholder is lazy.

        Raises:
            SessionError: there is no session.

        Example::

            async with connect(session="sweep") as ex:
                for name, r_ in ex.placeholders().items():
                    print(name, info(r_).state)
        """
        self._check_session()
        return dict(self._remote.named)

    async def named(self, session: str, *names: str) -> dict[str, Info]:
        """Return what `info` tells of the named calls of a session, by name: of those with these names, or of all.

        Any program that is connected may ask, whichever has the session, and none need have it: this takes no session,
        starts nothing, and keeps nothing alive; cancelling it changes nothing. It tells what was so at the head then.

        A name that was not given, or was forgotten, is not there; of a session that has ended, or never was, none is.
        Of a call that has failed, `.error` is a `RemoteError` with type and first line: the error itself goes to the
        program of the session. Of one that has ended so long ago that the head remembers the job no more, only state
        and size are known; and where its outcome lies on the head's disk, too, it is lazy, as in `placeholders`.

        Raises:
            HeadLostError: the head is lost.
            RuntimeError: the executor is not open, or lives in another event loop.

        Example::

            async with connect() as ex:
                for name, told in (await ex.named("sweep")).items():
                    print(name, told.state, told.worker, told.allocation)
        """
        self._check_loop("asked")
        return await self._remote.named_calls(session, names)

    async def forget(self, *names: str) -> None:
        """Drop what is kept under these names, and wait until the head has acknowledged that. Calls that run
        continue. Cancelled, it does not wait; the head may have dropped them.

        Raises:
            SessionError: a name is not there; or there is no session.
            HeadLostError: the head is lost.

        Example::

            print(await ex.placeholders()["fit"])
            await ex.forget("fit")
        """
        self._check_loop("used")
        self._check_session()
        unknown = [name for name in names if name not in self._remote.named]
        if unknown:
            raise SessionError(f"session {self._session!r} has nothing named {', '.join(map(repr, unknown))}")
        for name in names:
            self._taken.pop(name, None)
        await self._remote.forget(names)

    def under_way(self) -> list[Node]:
        """Return the named calls of the session that have not ended, whichever program began them, and what they
        need.
        """
        named = unfinished_nodes(map(node_behind, self._remote.named.values()))
        return [node for node in named if node.state is not State.LAZY and not node.function.many]

    def report_found(self, call: Callable[[Node], object] | None) -> None:
        """Call with each named call that had ended before this, once the program has taken it, as by
        `name(..., exist_ok=True)`; None ends that.
        """
        self._found = call
        named = () if call is None else map(node_behind, self._remote.named.values())
        self._ended_before = {node for node in named if node.finished}
        for node in self._taken.values():
            self._report_if_found(node)

    def _report_if_found(self, node: Node) -> None:
        if self._found is not None and node in self._ended_before:
            self._ended_before.discard(node)
            self._found(node)

    def _check_session(self) -> None:
        if not self._session:
            raise SessionError("names are of a session: open it with connect(session=...)")

    def _named(self, name: str) -> Delayed[Any] | None:
        """Return the placeholder that has a name; None if it is free."""
        known = self._remote.named.get(name)
        return None if known is None or node_behind(known).state is State.CANCELLED else known

    def _check_free(self, name: str) -> None:
        if self._named(name) is not None:
            raise SessionError(f"session {self._session!r} has something named {name!r}: take it, or forget it")
        if len(self._remote.named) >= MOST_NAMES:
            raise SessionError(f"session {self._session!r} has {MOST_NAMES} names: forget some")

    def write_trace(self, path: str | PathLike[str]) -> None:  # noqa: ARG002 - nothing is written
        """Raise `RuntimeError`: the head records, for all its clients. See `Executor.write_trace`."""
        why = "write_trace() is for the program that is the head; `grainlike trace` draws what a head has recorded"
        raise RuntimeError(why)


def check_name(name: object, of: str) -> None:
    """Raise `ValueError` for an invalid name."""
    if not (isinstance(name, str) and name.isprintable() and 0 < len(name) <= NAME_LIMIT):
        raise ValueError(
            f"the name of {of} takes 1 to {NAME_LIMIT} printable characters, which {shortened(repr(name))} has not"
        )


def _checked_logger(echo: object) -> Logger | None:
    """Return the logger that was given; None without one. Raise `TypeError` for what is neither a logger nor False."""
    if echo is None or echo is False:
        return None
    if isinstance(echo, Logger):
        return echo
    raise TypeError(
        "echo is a logger, as logging.getLogger('app.jobs'), which is given what jobs print, or False, which silences "
        f"calls in this process; {echo!r} is neither"
    )


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"{name} is a number of seconds, zero or more; {value!r} is not")


def _why_nameless(node: Node) -> str:
    """Return why a placeholder can not be given a name; empty where it can."""
    call = node.function.name
    if node.place is RunsIn.INLINE:
        made = next((dep.function.name for dep in node.deps if dep.place is RunsIn.REMOTE), "")
        of = f" of {made}" if made else ""
        return (
            f"a part of a value, or what an operator gives, can not be given a name: name the call{of} that gives the "
            "value, and take the part, or apply the operator, where it is needed"
        )
    if isinstance(node, StreamNode):
        return f"{call} can not be given a name: it is a stream, and its items go to the program that reads them"
    if node.place is not RunsIn.REMOTE:
        return (
            f"{call} can not be given a name: it runs in this program, as it asks for no resources; "
            f"({call} @ Cores(1))(...) runs on a worker"
        )
    return "" if node.state is State.LAZY else f"{call} can not be given a name: it has been started already"
