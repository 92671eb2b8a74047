"""Calls of a session's graphs: which wait for which, and the outcomes that others are to be given.

A call is known from its submission until it has ended, no other waits for it, and its program has acknowledged the end.
All of it follows from messages. Nothing here waits, and no byte is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.jobs._job import Job
from grainlike.wire import Parcel, Submit, nbytes_of

__all__ = ["CallGraph", "GraphCall"]

Outcome = Parcel | int
"""Payload of a value or an error, or the number of a value that stays at workers."""


class GraphCall:
    """Call of a graph. `child` is its number at the program, `job` its record, with number 0 until it is submitted."""

    __slots__ = (
        "age",
        "child",
        "goes_on",
        "good",
        "held",
        "inputs",
        "isolate",
        "job",
        "missing",
        "name",
        "needs",
        "outcome",
        "priority",
        "request",
        "size",
        "users",
    )  # fmt: skip

    def __init__(self, child: int, job: Job, name: str, message: Submit, row: int) -> None:
        self.child: int = child
        self.job: Job | None = job
        """Record of the job; None once it has ended."""
        self.name: str = name
        """Name in the session; empty without one."""
        self.request: str = message.request
        self.priority: int = message.priority
        self.isolate: bool = message.isolate
        self.goes_on: bool = message.goes_on
        self.needs: tuple[int, ...] = tuple(dict.fromkeys(message.needs[row]))
        """Calls whose values it needs."""
        self.inputs: tuple[int, ...] = tuple(message.inputs[row]) if message.inputs else ()
        """Values at workers that its arguments refer to."""
        self.age: int = message.ages[row] if message.ages else 0
        """Number of the oldest job among it and all that it needs; 0 while there is none."""
        self.size: int = message.sizes[row] if message.sizes else 0
        self.missing: int = 0
        """Number of calls it needs that have not ended."""
        self.users: dict[int, None] = {}
        """Calls that wait for it."""
        self.held: bool = True
        """True until its program has acknowledged its end, or left."""
        self.outcome: Outcome | None = None
        self.good: bool = False

    @property
    def waits(self) -> bool:
        """True until it is submitted to the scheduler."""
        return self.job is not None and not self.job.id


class CallGraph:
    """The calls of one session's graphs, by their numbers at the program."""

    __slots__ = ("calls", "nbytes", "unpinned")

    def __init__(self) -> None:
        self.calls: dict[int, GraphCall] = {}
        self.nbytes: int = 0
        """Bytes of the outcomes that are kept for others."""
        self.unpinned: list[int] = []
        """Values at workers that are kept for no call any more, since `take_unpinned`."""

    def enter(self, call: GraphCall) -> Parcel | None:
        """Add a call. Return the error of one that it needs, if one has failed.

        Raises:
            LookupError: it needs a call that is not known.
        """
        self.calls[call.child] = call
        lost = [number for number in call.needs if number not in self.calls or number >= call.child]
        if lost:
            call.needs = ()
            raise LookupError(f"it needs call {lost[0]} of its program, of which the head knows nothing any more")
        failed = None
        for number in call.needs:
            need = self.calls[number]
            need.users[call.child] = None
            if need.outcome is None:
                call.missing += 1
            elif not need.good:
                failed = need.outcome
        assert not isinstance(failed, int)
        return failed

    def end(self, call: GraphCall, outcome: Outcome, *, good: bool) -> list[GraphCall]:
        """Record the end of a call; return those that wait for it: with a value, the ones that need no other."""
        call.outcome, call.good, call.job = outcome, good, None
        if not isinstance(outcome, int):
            self.nbytes += nbytes_of(outcome)
        self._leave(call)
        users = [self.calls[number] for number in call.users]
        for user in users:
            user.missing -= 1
        self._look_at(call)
        return [user for user in users if user.waits and not (good and user.missing)]

    def given(self, call: GraphCall) -> dict[int, Outcome]:
        """Return the outcomes that a call needs, all of which are there."""
        found: dict[int, Outcome] = {}
        for number in call.needs:
            outcome = self.calls[number].outcome
            assert outcome is not None
            found[number] = outcome
        return found

    def ages(self, call: GraphCall) -> list[int]:
        """Return the ages of a call and of what it needs."""
        return [age for age in (call.age, *(self.calls[number].age for number in call.needs)) if age]

    def begun(self, call: GraphCall) -> None:
        """Record that a call has all that it needs."""
        self._leave(call)

    def heard(self, children: Iterable[int]) -> None:
        """Record that the program has heard how these ended."""
        for child in children:
            call = self.calls.get(child)
            if call is not None and call.outcome is not None:
                call.held = False
                self._look_at(call)

    def attach(self) -> None:
        """Record that a program has come: it may submit calls that refer to those with names that it finds unended."""
        for call in self.calls.values():
            call.held = call.held or bool(call.name and call.outcome is None)

    def detach(self) -> None:
        """Record that the program has gone, and refers to nothing any more."""
        for call in list(self.calls.values()):
            call.held = False
            self._look_at(call)

    def withdraw(self, children: Iterable[int]) -> tuple[list[GraphCall], list[GraphCall]]:
        """Remove calls. Return others that needed one of these, which are to fail, and unended calls that nothing needs
        now.
        """
        gone = [call for call in map(self.calls.get, children) if call is not None]
        for call in gone:
            call.held = False
        left = {call.child: call for call in gone if call.outcome is None}
        idle: dict[int, GraphCall] = {}
        users: dict[int, GraphCall] = {}
        for call in gone:
            idle.update(self._leave(call))
        for call in left.values():
            users.update((number, self.calls[number]) for number in call.users if number not in left)
            for number in call.users:
                user = self.calls[number]
                user.missing -= 1
                user.needs = tuple(need for need in user.needs if need != call.child)
            del self.calls[call.child]
        for call in gone:
            self._look_at(call)
        return list(users.values()), [call for number, call in idle.items() if number not in left]

    def fail(self, call: GraphCall) -> list[GraphCall]:
        """Record that a call is to fail; return unended calls that nothing needs now, if these are to end with it."""
        idle = self._leave(call)
        return [] if call.goes_on else list(idle.values())

    def take_unpinned(self) -> list[int]:
        """Return the values that are kept for no call any more."""
        values, self.unpinned = self.unpinned, []
        return values

    def functions(self) -> set[int]:
        """Return the numbers of the functions that waiting calls are of."""
        return {call.job.fn for call in self.calls.values() if call.job is not None and not call.job.id}

    def _leave(self, call: GraphCall) -> dict[int, GraphCall]:
        """Take back what a call needs; return those without a name that have not ended, and that nothing needs now."""
        needs, call.needs = call.needs, ()
        self.unpinned += call.inputs
        call.inputs = ()
        idle: dict[int, GraphCall] = {}
        for number in needs:
            need = self.calls.get(number)
            if need is None:
                continue
            need.users.pop(call.child, None)
            if need.outcome is None and not (need.users or need.held or need.name):
                idle[number] = need
            self._look_at(need)
        return idle

    def _look_at(self, call: GraphCall) -> None:
        """Forget a call that has ended if nothing needs its outcome."""
        if call.outcome is None or call.users or call.held or call.child not in self.calls:
            return
        del self.calls[call.child]
        if isinstance(call.outcome, int):
            self.unpinned.append(call.outcome)
        else:
            self.nbytes -= nbytes_of(call.outcome)
