"""Job of a part: it makes the part's calls one after another, and reports how each went.

Each call gets its own copy of its arguments, as if it had come from elsewhere: so a call that changes its arguments
changes nothing for others, and what cannot be pickled fails alone, as it would by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from grainlike._retrying import tries_again
from grainlike.context import GVAR, enter_part
from grainlike.graph import ATOMS, DelayedFn, Given, Hole, Step, StreamFn, Template
from grainlike.payload import Payload, dump_error, dump_value, load_error, load_function, load_value

__all__ = ["CallReport", "PartPlan", "run_part", "run_part_async"]


class PartPlan(NamedTuple):
    """Payload of a part. All lists but `blobs` and `packed` have an entry for each call.

    `functions` are numbers of blobs; `given` are numbers of what is packed, None for a call that brings nothing along.
    """

    blobs: list[bytes]
    functions: list[int]
    names: list[str]
    retries: list[int]
    steps: list[Step]
    packed: list[Payload]
    given: list[int | None]
    fail_fast: bool


class CallReport(NamedTuple):
    """Outcome of one call. Times are seconds from when the part began.

    `good` is None for one that was not made, as something that it needs failed or the part ended at a failure. An
    immutable value is there itself, any other one is `packed`, and so is an error. An operator is `left` to be
    applied to what comes back: its value may be a part of that, or nothing that can be pickled.
    """

    good: bool | None = None
    value: Any = None
    packed: Payload | None = None
    left: bool = False
    began: float = 0.0
    ended: float = 0.0
    cpu: float = 0.0
    attempt: int = 0

    def outcome(self, note: str) -> Any:
        """Return the value, or raise the call's error, which carries `note`, or what opening the value raises."""
        if not self.good:
            raise load_error(self.packed or Payload(b""), note)
        return self.value if self.packed is None else load_value(self.packed)


def run_part(plan: PartPlan) -> list[CallReport]:
    """Run a part without coroutines."""
    course = _PartProgress(plan)
    for number in course.due():
        try:
            value = course.call(number)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the call's own, for its awaiters
            course.failed(number, error)
        else:
            course.succeeded(number, value)
    return course.told


async def run_part_async(plan: PartPlan) -> list[CallReport]:
    """Run a part with coroutines. Its plain functions block nothing else: the process is the part's own."""
    course = _PartProgress(plan)
    for number in course.due():
        try:
            value = course.call(number)
            if hasattr(value, "__await__") and not isinstance(value, DelayedFn | StreamFn):  # these refuse it in words
                value = await value
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the call's own, for its awaiters
            course.failed(number, error)
        else:
            course.succeeded(number, value)
    return course.told


class _PartProgress:
    """Progress of a part: the next call, and how those before it went."""

    def __init__(self, plan: PartPlan) -> None:
        self.told = [CallReport()] * len(plan.steps)
        self._plan = plan
        self._functions: dict[int, Callable[..., Any]] = {}
        self._values: dict[int, Any] = {}
        """Values of operators, and values that operators have worked on."""
        self._zero = time.monotonic()
        self._cpu = 0.0

    def due(self) -> Iterator[int]:
        """Iterate over the numbers of the calls to make now; one that failed comes again while it has retries."""
        plan = self._plan
        for number, step in enumerate(plan.steps):
            if any(not self.told[need].good for need in step.needs):
                continue
            for attempt in count(1):
                self._cpu = time.process_time()
                self.told[number] = CallReport(began=time.monotonic() - self._zero, attempt=attempt)
                self._show(number, attempt)
                yield number
                if self.told[number].good or not tries_again(attempt, plan.retries[number]):
                    break
            if plan.fail_fast and not self.told[number].good:
                return

    def _show(self, number: int, attempt: int) -> None:
        whole = GVAR.job
        if whole is not None:
            enter_part(replace(whole, name=self._plan.names[number], attempt=attempt))

    # --- what a call is given ----------------------------------------------------------------------------------------

    def call(self, number: int) -> Any:
        """Make a call; of a coroutine function, begin it."""
        step = self._plan.steps[number]
        built: dict[Any, Any] = {}
        brought = self._plan.given[number]
        given = [] if brought is None else load_value(self._plan.packed[brought].lent(), what="the arguments")

        def filled(item: Any) -> Any:
            kind = type(item)
            if kind is Given:
                return given[item.number]
            if kind is not Hole and kind is not Template:
                return item
            key = item.step if kind is Hole else item
            if key not in built:  # what is passed twice stays one object
                built[key] = self._value(item.step, step) if kind is Hole else item.make(list(map(filled, item.items)))
            return built[key]

        args = [filled(item) for item in step.args]
        kwargs = {key: filled(item) for key, item in step.kwargs.items()}
        return self._function(number)(*args, **kwargs)

    def _function(self, number: int) -> Callable[..., Any]:
        blob = self._plan.functions[number]
        if blob not in self._functions:
            self._functions[blob] = load_function(self._plan.blobs[blob])
        return self._functions[blob]

    def _value(self, number: int, wanted_by: Step) -> Any:
        """Return an earlier call's value: for an operator the value itself, which is its own; for a job a copy."""
        told = self.told[number]
        if told.packed is None and not told.left:
            return told.value
        if wanted_by.inline:
            if number not in self._values:
                self._values[number] = _opened(told)
            return self._values[number]
        if not self._plan.steps[number].inline:
            return _opened(told)
        return load_value(dump_value(self._values[number], what="an argument").detached())

    # --- what it gave ------------------------------------------------------------------------------------------------

    def succeeded(self, number: int, value: Any) -> None:
        """A call gave a value."""
        ended = time.monotonic()
        if type(value) in ATOMS:
            self._tell(number, ended, good=True, value=value)
            return
        if self._plan.steps[number].inline:
            self._values[number] = value
            self._tell(number, ended, good=True, left=True)
            return
        try:
            packed = dump_value(value, what=f"the value of {self._plan.names[number]}").detached()
        except Exception as error:  # noqa: BLE001 - what cannot travel back is the call's own error
            self.failed(number, error)
        else:
            self._tell(number, ended, good=True, packed=packed.inside())

    def failed(self, number: int, error: BaseException) -> None:
        """A call raised."""
        self._tell(number, time.monotonic(), good=False, packed=dump_error(error))

    def _tell(self, number: int, ended: float, **told: Any) -> None:
        cpu = time.process_time() - self._cpu
        self.told[number] = self.told[number]._replace(ended=ended - self._zero, cpu=cpu, **told)


def _opened(told: CallReport) -> Any:
    assert told.packed is not None
    return load_value(told.packed.lent())
