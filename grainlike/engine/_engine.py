"""Runs graphs: nodes become ready, are done, and let others become ready, without a task or a wait per node.

Laws:

1. A node is bound to the first engine that starts it, and is done at most once.
2. `interest` of an unfinished node is the number of awaiters, starts and unfinished dependents that want it. When it
   falls to zero the node is cancelled and releases what it needs: that is how cancelling the last awaiter of a
   placeholder ends remote work, and how one of two awaiters leaves the other's result intact.
3. A node fails as soon as one of its inputs fails, with the same exception; but one whose function accepts errors
   (`gather(return_exceptions=True)`) is ready when all its inputs have finished, however they did.
4. A node whose value stays at workers has finished. What needs the bytes in this process begins when they were fetched;
   jobs do not.
5. Everything is iterative: a chain of 100 000 operators is a loop here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import Context, copy_context
from itertools import count, islice
from typing import Any

from grainlike.engine._explain import note_operator
from grainlike.engine._fetches import Fetcher, InputFetches
from grainlike.engine._interfaces import CallCache, CallRunner, JobRunner
from grainlike.engine._left_to_jobs import becomes_job, is_for_jobs, is_for_one_job
from grainlike.engine._unretrieved import log_if_unretrieved
from grainlike.errors import GraphError
from grainlike.eventloop import Wakeup, new_wakeup
from grainlike.graph import Node, RunsIn, State, fetched, pending_nodes, unfinished_nodes
from grainlike.resources import Request

__all__ = ["Engine"]

_SLICE_S = 0.005
"""Seconds for which the engine keeps the event loop before other callbacks get a turn."""

_BATCH = 512
"""Number of calls that are sent to workers in one step."""

_SHORT_STEPS = 16
"""Number of steps, each of about a microsecond and without user code, between two looks at the clock."""

_TOGETHER = 64
"""Number of calls that are settled together between two looks: they take a quarter of a step each."""

_MOST_ABOVE = 1000
"""Number of nodes at which the search for callers ends."""

_Caller = tuple[int, Context]
"""A number, higher for later callers, and a context."""

_NOBODY_LEFT = "was cancelled: the last who awaited it left; start() keeps a call going"

# As globals: for each node it would be looked up on the enum's class.
_PENDING, _SUCCEEDED, _REMOTE = State.PENDING, State.SUCCEEDED, RunsIn.REMOTE


class Engine:
    """Runs graphs for one executor. `soon(call)` calls back in a later turn of the event loop.

    `fail_fast`: when a node fails, what only it needed is cancelled; otherwise that runs to its end.
    """

    def __init__(self, owner: Any, soon: Callable[[Callable[[], None]], None], *, fail_fast: bool) -> None:
        self.jobs: JobRunner
        self.calls: CallRunner
        self.cache: CallCache | None = None
        self.applied: Callable[[Node], None] | None = None
        """Called with each operator before it is applied, while its inputs are there."""
        self.bound: Callable[[Sequence[Node]], object] | None = None
        """Called with nodes as they are bound: once for all that come together."""
        self.ended: Callable[[Node, BaseException | None], object] | None = None
        """Called with each outcome as it arrives, before any other part learns of it; None is the error of a value."""
        self.fetcher: Fetcher | None = None
        """Fetcher of the values that stay at workers; None where none do."""
        self._stays = False
        """True once a node, or an input of one, had a value that stays at workers."""
        self._inputs = InputFetches()
        self._owner = owner
        self._soon = soon
        self._fail_fast = fail_fast
        self._wakeup: Callable[[], Wakeup] | None = None
        """Factory of events for who waits; None before the first waits: all do in one loop."""
        self._ready: deque[tuple[Node, Context]] = deque()
        self._ended: deque[tuple[Node, bool, Any] | zip[tuple[Node, Any]]] = deque()
        """Outcomes that have arrived, or the values of a batch, as far as they are not settled."""
        self._remote: deque[Node] = deque()
        """The calls for workers that became ready since the last step that sent some."""
        self._unsent: deque[deque[Node]] = deque()
        """Those of earlier steps, which take turns."""
        self._contexts: dict[Node, Context] = {}
        """The contexts of calls without resources that wait for their inputs; with `keeps_contexts` of all calls."""
        self.keeps_contexts = False
        """True if calls with resources run in the contexts of their callers: where they run in this process."""
        self.keeps_callers = False
        """True if `caller_of` is asked: where the output of a job is shown to its awaiter."""
        self._wants = count()
        self._wanted: dict[Node, _Caller | None] = {}
        """The roots: what has not finished is among these, or is needed by one of them. With `keeps_callers`, each with
        its last caller.
        """
        self._pumping = False
        self._goes_on = False
        """True if a later turn goes on with what this one left."""
        self._sent_enough = False
        """True if that turn alone sends more calls: this one has sent as many as a turn may."""
        self._held = True

    # --- from awaiters -----------------------------------------------------------------------------------------------

    @property
    def fails_fast(self) -> bool:
        """True if what only a failed node needed is cancelled."""
        return self._fail_fast

    def start(self, nodes: Sequence[Node]) -> None:
        """Start nodes and what they need; each keeps running until it has finished, with or without awaiters."""
        self._want(nodes)
        self.pump()

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Bind lazy nodes, dependencies first, that another component runs: their outcomes come as those of jobs do."""
        caller = self._caller()
        for node in nodes:
            node.owner = self._owner
            node.state = State.PENDING
            node.interest += 1
            for dep in node.deps:
                if not dep.finished:
                    dep.interest += 1
            self._wanted[node] = caller
        if self.bound is not None:
            self.bound(nodes)

    def apply(self, nodes: Iterable[Node]) -> None:
        """Apply adopted operators after all, in this order, once the outcomes that arrived before are handled."""
        self._ready.extend((node, _EMPTY) for node in nodes)

    async def wait(self, node: Node) -> Any:
        """Begin, wait, and return the value or raise the error. Cancelled, the last awaiter takes the work with it."""
        self._want([node])
        self.pump()
        if not node.finished:
            if self._wakeup is None:
                self._wakeup = new_wakeup()
            arrived = self._wakeup()
            wake = arrived.set
            self.watch(node, wake)
            try:
                await arrived.wait()
            finally:
                if not node.finished:
                    self.unwatch(node, wake)
                    self.release([node])
        if self._stays and node.stays:
            return await fetched(node)
        return node.result()

    def watch(self, node: Node, waiter: Callable[[], object]) -> None:
        """Call `waiter` when the node has finished."""
        if node.waiters is None:
            node.waiters = [waiter]
        else:
            node.waiters.append(waiter)

    def unwatch(self, node: Node, waiter: Callable[[], object]) -> None:
        """Remove `waiter` from `node`; no-op if it was already called."""
        if node.waiters is not None and waiter in node.waiters:
            node.waiters.remove(waiter)

    def release(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Take back the interest of `start` or `wait`; nodes with no interest left are cancelled (see `JobRunner`)."""
        why = "was cancelled" if skipped else _NOBODY_LEFT
        self._lose_interest([node for node in nodes if not node.finished], why, skipped=skipped)
        self.pump()

    def cancel(self, nodes: Iterable[Node], why: str = "was cancelled", left: Collection[Node] = ()) -> None:
        """Cancel nodes for everybody: awaiters get `JobCancelledError`, or `SessionError` for one that is left."""
        for node in nodes:
            if not node.finished:
                self._stop([node], skipped=False)
                deps = node.deps
                node.leave() if node in left else node.cancel(why)
                self._close(node, deps, node.error)
        self.pump()

    def cancel_all(self, left: Collection[Node] = ()) -> None:
        """Cancel all nodes that have not finished, as the executor closes. Those of `left` go on in their session."""
        self.cancel(self.unfinished(), "was cancelled: its executor closed", left)

    def unfinished(self) -> list[Node]:
        """Return all nodes that somebody wants, or that one of these needs, and that have not finished."""
        return unfinished_nodes(self._wanted)

    def take_context(self, node: Node) -> Context:
        """Return the context in which a call with resources was started, where `keeps_contexts`; else an empty one.

        It is kept until it is taken, once.
        """
        return self._contexts.pop(node, _EMPTY)

    def caller_of(self, node: Node) -> Context | None:
        """Return the context of the last who wanted a node, or something that needs it; None if that was not kept.

        From any thread: a look at a graph that changes meanwhile may miss the newest.
        """
        last: _Caller | None = None
        above, seen = [node], {node}
        while above and len(seen) < _MOST_ABOVE:
            one = above.pop()
            caller = self._wanted.get(one)
            if caller is not None and (last is None or caller[0] > last[0]):
                last = caller
            found = [dependent for dependent in one.dependents or () if dependent not in seen]
            seen.update(found)
            above += found
        return None if last is None else last[1]

    def _caller(self) -> _Caller | None:
        return (next(self._wants), copy_context()) if self.keeps_callers else None

    def keep_context(self, node: Node, context: Context) -> None:
        """Keep a context that was taken for somebody else to take."""
        self._contexts[node] = context

    def release_hold(self) -> None:
        """The workers that must be here are: calls with resources may go out."""
        self._held = False
        self.pump()

    # --- outcomes, from workers and local calls -----------------------------------------------------------------------

    def succeeded(self, node: Node, value: object) -> None:
        """Take note of a value; `pump` does the rest."""
        if self.ended is not None:
            self.ended(node, None)
        self._ended.append((node, True, value))

    def all_succeeded(self, nodes: Sequence[Node], values: Sequence[object]) -> None:
        """Take note of the values of many, in this order; `pump` does the rest."""
        if self.ended is not None:
            for node in nodes:
                self.ended(node, None)
        self._ended.append(zip(nodes, values, strict=False) if len(nodes) != 1 else (nodes[0], True, values[0]))

    def stayed(self, node: Node, job: int, size: int) -> None:
        """Take note of a value that stays at workers; `pump` does the rest."""
        assert self.fetcher is not None
        self._stays = True
        self.succeeded(node, self.fetcher.stayed(job, size))

    def failed(self, node: Node, error: BaseException) -> None:
        """Take note of an error; `pump` does the rest."""
        if self.ended is not None:
            self.ended(node, error)
        self._ended.append((node, False, error))

    # --- the loop ----------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Do all that can be done now. Calls from inside are no calls: the loop that runs sees to their work."""
        if self._pumping:
            return
        if not (self._ended or self._ready) and (self._held or self._sent_enough or not (self._remote or self._unsent)):
            return
        self._pumping = True
        try:
            until = time.monotonic() + _SLICE_S
            while self._ended or self._ready or self._remote or self._unsent:
                if self._ended:
                    late = self._finish_all(until)
                elif self._ready:
                    node, context = self._ready.popleft()
                    self._begin(node, context)
                    late = time.monotonic() > until  # an operator on arrays may take a whole slice
                elif self._held or self._sent_enough:
                    return  # what is to be sent waits
                else:
                    self._submit_some()
                    self._sent_enough = bool(self._unsent)
                    late = self._sent_enough or time.monotonic() > until  # what is sent leaves with this turn
                if late:
                    if not self._goes_on:
                        self._goes_on = True
                        self._soon(self._go_on)
                    return
        finally:
            self._pumping = False

    def _go_on(self) -> None:
        self._goes_on = self._sent_enough = False
        self.pump()

    def _finish_all(self, until: float) -> bool:
        """Settle what has ended; return True if the slice was over before all of it was."""
        ended, wanted = self._ended, self._wanted
        steps = 0
        while ended:
            entry = ended[0]
            if isinstance(entry, zip):
                from grainlike.engine._batches import settle  # a program of single calls does without

                some = islice(entry, _TOGETHER)
                if settle(some, wanted, self._now_ready, self._finish) < _TOGETHER:
                    ended.popleft()
                if time.monotonic() > until:
                    return True
                continue
            node, good, outcome = entry
            ended.popleft()
            if not good or node.function.options.cache is not None:
                self._finish(node, good=good, outcome=outcome)
            elif node.succeed(outcome):
                # By hand what `_finish`, `_close` and `_wake` do, for the end that most nodes have: 3 calls less.
                wanted.pop(node, None)
                dependents = node.dependents
                if dependents is not None:
                    node.dependents = None
                    age = node.age
                    for dependent in dependents:
                        if age and (age < dependent.age or not dependent.age):
                            dependent.age = age
                        dependent.missing -= 1
                        if not dependent.missing and not dependent.finished:
                            self._now_ready(dependent)
                if node.waiters is not None:
                    _wake(node)
            steps += 1
            # Not at each step: the clock costs as much as a step.
            if not steps % _SHORT_STEPS and time.monotonic() > until:
                return True
        return False

    def _submit_some(self) -> None:
        """Send calls to workers: some, so that workers begin with the first while others are made ready.

        What became ready later does not wait until all that came before is sent: they take turns.
        """
        unsent, remote = self._unsent, self._remote
        if not unsent and len(remote) == 1:
            node = remote.popleft()
            if not node.finished:
                self.jobs.submit([node])
            return
        from grainlike.engine._batches import taken  # as above

        if remote:
            unsent.append(remote)
            self._remote = deque()
        room = _BATCH
        requests: set[Request | None] = set()
        while unsent and room:
            calls = unsent.popleft()
            before = len(calls)
            nodes = taken(calls, room, requests)
            room -= before - len(calls)
            if nodes:
                self.jobs.submit(nodes)
            if calls:
                (unsent.append if nodes else unsent.appendleft)(calls)
                return

    def _begin(self, node: Node, context: Context) -> None:
        if node.finished:
            return
        if self._stays and node.deps:
            if node.place is RunsIn.INLINE and self._is_left_to_jobs(node):
                return
            if self._inputs.fetch(node, context, self.fetcher, self._fetched):
                return
        if node.function.options.cache is not None and self._look_up(node, context):
            return
        if node.place is RunsIn.INLINE:
            if self.applied is not None:
                self.applied(node)
            try:
                value = node.apply_by_reference() if self._stays else node.apply()
            except BaseException as error:  # noqa: BLE001 - an operator's own error is its awaiters', SystemExit too
                note_operator(error, node)
                self._ended.appendleft((node, False, error))
            else:
                self._ended.appendleft((node, True, value))
        elif node.place is RunsIn.LOCAL:
            self.calls.begin(node, context)
        else:
            self._remote.append(node)

    def _is_left_to_jobs(self, node: Node) -> bool:
        """Leave an operator on values that stay at workers to jobs, if they need it; return False where it is applied
        here. A part of a value becomes a job. Any other, which one job alone needs, ends as the expression, which that
        job applies.
        """
        fetcher = self.fetcher
        if fetcher is None or not any(dep.stays for dep in node.deps):
            return False
        if is_for_jobs(node) and becomes_job(node):
            self._remote.append(node)
            return True
        if not (is_for_one_job(node) and node.unfetched_inputs(fetcher)):
            return False
        expression = node.expression(fetcher)
        if expression is not None:
            if self.applied is not None:
                self.applied(node)
            self._ended.appendleft((node, True, expression))
        return expression is not None

    def _fetched(self, node: Node, context: Context, error: BaseException | None) -> None:
        """Go on with a node whose inputs are in this process now; `error`: they never will be."""
        if error is None:
            self._ready.append((node, context))
        else:
            self._ended.append((node, False, error))
        self._soon(self.pump)  # not in the middle of what the head does

    def _look_up(self, node: Node, context: Context) -> bool:
        """Look up the result of a call that has a cache; return True if the call has to wait for that."""
        if self.cache is None or not self.cache.wants_to_look(node):
            return False

        def go_on() -> None:
            self._ready.append((node, context))
            self.pump()

        self.cache.look(node, go_on)
        return True

    # --- interest ----------------------------------------------------------------------------------------------------

    def _want(self, roots: Sequence[Node]) -> None:
        """Bind new nodes, and add one interest to each root."""
        fresh, bound = pending_nodes(roots)
        for node in bound:
            if node.owner is not self._owner:
                raise GraphError(
                    f"{node.function.name} was started by another executor ({node.owner}) and has not finished: "
                    "await it there, or make a new placeholder here"
                )
        if fresh:
            self._bind(fresh, copy_context())
            if self.bound is not None:
                self.bound(fresh)
        caller = self._caller() if self.keeps_callers else None
        for node in roots:
            node.interest += 1
            if not node.finished:
                self._wanted[node] = caller

    def _bind(self, nodes: Sequence[Node], context: Context) -> None:
        owner, ready, remote = self._owner, self._ready, self._remote
        if self.keeps_contexts:
            self._contexts.update((node, context) for node in nodes if node.place is _REMOTE)
        for node in nodes:
            node.owner = owner
            node.state = _PENDING
            if node.deps and not self._has_inputs(node):
                if node.place is RunsIn.LOCAL:
                    self._contexts[node] = context
            elif (
                node.place is _REMOTE
                and not (ready or (self._stays and node.deps))
                and node.function.options.cache is None
            ):
                # By hand what `_begin` would do in its turn: through `ready` a no-op job costs 10.9 Python calls
                # instead of 9.9, and workers begin only when all are ready.
                remote.append(node)
            else:
                ready.append((node, context))

    def _now_ready(self, node: Node) -> None:
        """Queue a node whose last input has finished."""
        if node.place is _REMOTE and not (self._ready or self._stays) and node.function.options.cache is None:
            self._remote.append(node)
            return
        context = self._contexts.get(node) if self._contexts else None
        if node.place is not _REMOTE:
            self._contexts.pop(node, None)
        self._ready.append((node, context if context is not None else _EMPTY))

    def _has_inputs(self, node: Node) -> bool:
        """Return True if all inputs of a node have finished, else register it as their dependent. A failed input
        fails it, too.
        """
        missing = 0
        error: BaseException | None = None
        # One tuple for all inputs with no other dependent, as those of a `gather`: a list for each takes more memory.
        alone = (node,)
        for dep in node.deps:
            if not dep.finished:
                missing += 1
                dep.interest += 1
                others = dep.dependents
                if others is None:
                    dep.dependents = alone
                elif isinstance(others, list):
                    others.append(node)
                else:
                    dep.dependents = [*others, node]
                continue
            if dep.age and dep.owner is self._owner:
                _inherit(node, dep.age)
            if dep.state is not _SUCCEEDED:
                if not node.function.accepts_errors:
                    error = dep.error
            elif dep.stays:
                self._stays = True
        node.missing = missing
        if error is not None:
            self._ended.append((node, False, error))
        return missing == 0 and error is None

    def _lose_interest(self, nodes: list[Node], why: str = "was cancelled", *, skipped: bool) -> None:
        """Take one interest from each node; cancel those with none left, and so on down their dependencies."""
        dropped: list[Node] = []
        while nodes:
            node = nodes.pop()
            node.interest -= 1
            if node.interest > 0 or node.finished or node.owner is not self._owner:
                continue
            dropped.append(node)
            nodes.extend(dep for dep in node.deps if not dep.finished)
            node.cancel(why)
            node.dependents = None
            self._forget(node)
        self._stop(dropped, skipped=skipped)

    def _stop(self, nodes: list[Node], *, skipped: bool) -> None:
        if self._stays:
            self._inputs.cancel(nodes)
        remote = [node for node in nodes if node.place is RunsIn.REMOTE]
        if remote:
            self.jobs.cancel(remote, skipped=skipped)
        for node in nodes:
            if node.place is RunsIn.LOCAL:
                self.calls.cancel(node)

    # --- ends --------------------------------------------------------------------------------------------------------

    def _finish(self, node: Node, *, good: bool, outcome: Any) -> None:
        if node.finished:
            return
        kept = node.function.options.cache is not None  # before `wants_to_keep`: most nodes need no call of it
        if good and kept and self.cache is not None and self.cache.wants_to_keep(node):
            self.cache.keep(node, outcome)
            return
        deps = node.deps
        if good:
            node.succeed(outcome)
            self._close(node, deps, None)
        else:
            node.fail(outcome)
            log_if_unretrieved(node, outcome)
            self._stop([node], skipped=True)
            self._close(node, deps, outcome)

    def _close(self, node: Node, deps: Sequence[Node], error: BaseException | None) -> None:
        """Notify awaiters and dependents of a finished node; `error` is the node's, if it has one."""
        if self._contexts or node.function.options.cache is not None:
            self._forget(node)
        else:
            self._wanted.pop(node, None)  # `_forget` without its call, as most nodes have neither context nor cache
        if error is not None:
            left = [dep for dep in deps if not dep.finished]
            if self._fail_fast or node.state is State.CANCELLED:
                self._lose_interest(left, skipped=node.state is State.FAILED)
            else:
                self._wanted.update(dict.fromkeys(left))  # they go on, though nothing is left that needs them
        dependents, node.dependents = node.dependents, None
        for dependent in dependents or ():
            if dependent.finished:
                continue
            if error is not None and not dependent.function.accepts_errors:
                self._ended.append((dependent, False, error))
                continue
            if node.age:
                _inherit(dependent, node.age)
            dependent.missing -= 1
            if dependent.missing == 0:
                self._now_ready(dependent)
        _wake(node)

    def _forget(self, node: Node) -> None:
        self._wanted.pop(node, None)
        self._contexts.pop(node, None)
        if self.cache is not None and node.function.options.cache is not None:
            self.cache.forget(node)


def _inherit(node: Node, age: int) -> None:
    """Make a node as old as one of its inputs: the job that it becomes goes when that would."""
    if age < node.age or not node.age:
        node.age = age


def _wake(node: Node) -> None:
    """Call the waiters of a node that has finished."""
    waiters, node.waiters = node.waiters, None
    for waiter in waiters or ():
        waiter()


_EMPTY = Context()
"""Empty context of nodes that never read it: operators, and calls that are sent to a worker."""
