"""What the job of a part does: it makes the part's calls one after another, and tells how each went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from grainlike.context import GVAR, enter_part
from grainlike.graph import Hole, Step, Template
from grainlike.payload import Payload, dump_error, load_function

__all__ = ["PartPlan", "Told", "run_part", "run_part_async"]


class PartPlan(NamedTuple):
    """What travels. All lists but `blobs` have an entry for each call; `functions` are numbers of blobs."""

    blobs: list[bytes]
    functions: list[int]
    names: list[str]
    retries: list[int]
    steps: list[Step]
    fail_fast: bool


class Told(NamedTuple):
    """How one call went. Times are seconds from when the part began.

    `good` is None for one that was not made, as something that it needs failed or the part ended at a failure; of one
    that failed, `value` is the packed error.
    """

    good: bool | None = None
    value: Any = None
    began: float = 0.0
    ended: float = 0.0
    cpu: float = 0.0
    attempt: int = 0


def run_part(plan: PartPlan) -> list[Told]:
    """Run a part without coroutines."""
    course = _Course(plan)
    for number in course.due():
        try:
            value = course.call(number)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the call's own, for its awaiters
            course.failed(number, error)
        else:
            course.succeeded(number, value)
    return course.told


async def run_part_async(plan: PartPlan) -> list[Told]:
    """Run a part with coroutines. Its plain functions hold up nobody else: the process is the part's own."""
    course = _Course(plan)
    for number in course.due():
        try:
            value = course.call(number)
            if hasattr(value, "__await__"):
                value = await value
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the call's own, for its awaiters
            course.failed(number, error)
        else:
            course.succeeded(number, value)
    return course.told


class _Course:
    """Which call is next, and how those before it went."""

    def __init__(self, plan: PartPlan) -> None:
        self.told = [Told()] * len(plan.steps)
        self._plan = plan
        self._functions = [load_function(blob) for blob in plan.blobs]
        self._values: list[Any] = [None] * len(plan.steps)
        self._zero = time.monotonic()
        self._cpu = 0.0

    def due(self) -> Iterator[int]:
        """The numbers of the calls to make now; one that failed comes again while it has retries."""
        plan = self._plan
        for number, step in enumerate(plan.steps):
            if any(not self.told[need].good for need in step.needs):
                continue
            for attempt in range(1, plan.retries[number] + 2):
                self._cpu = time.process_time()
                self.told[number] = Told(None, None, time.monotonic() - self._zero, attempt=attempt)
                self._show(number, attempt)
                yield number
                if self.told[number].good:
                    break
            else:
                if plan.fail_fast:
                    return

    def _show(self, number: int, attempt: int) -> None:
        whole = GVAR.job
        if whole is not None:
            enter_part(replace(whole, name=self._plan.names[number], attempt=attempt))

    def call(self, number: int) -> Any:
        """Make a call; of a coroutine function, begin it."""
        step = self._plan.steps[number]
        built: dict[int, Any] = {}
        args = [self._filled(item, built) for item in step.args]
        kwargs = {key: self._filled(item, built) for key, item in step.kwargs.items()}
        return self._functions[self._plan.functions[number]](*args, **kwargs)

    def _filled(self, item: Any, built: dict[int, Any]) -> Any:
        if type(item) is Hole:
            return self._values[item.step]
        if type(item) is not Template:
            return item
        if id(item) not in built:  # a container that is passed twice stays one object
            built[id(item)] = item.make([self._filled(part, built) for part in item.items])
        return built[id(item)]

    def succeeded(self, number: int, value: Any) -> None:
        """A call gave a value."""
        self._values[number] = value
        self._tell(number, good=True, value=value)

    def failed(self, number: int, error: BaseException) -> None:
        """A call raised."""
        packed: Payload = dump_error(error)
        self._tell(number, good=False, value=bytes(packed.data))

    def _tell(self, number: int, *, good: bool, value: Any) -> None:
        ended = time.monotonic() - self._zero
        cpu = time.process_time() - self._cpu
        self.told[number] = self.told[number]._replace(good=good, value=value, ended=ended, cpu=cpu)
