"""Weather of a world: how slow, silent and forgetful its batch system is, and what befalls blocks and the head."""

from __future__ import annotations

from dataclasses import dataclass

from grainlike.simulation import Dice

__all__ = ["Weather", "draw_weather"]


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances and durations of a world, in seconds; chances are for each case, `mean_*` are of exponential waits.

    Attributes:
        calm_at: time from which nothing goes wrong any more.
        mean_answer: wait for the answer of a native command.
        unclear: chance that a submission gives no clear answer, and that half of these are taken.
        twice: chance that a submission is taken twice.
        late: chance that a job shows in listings only long after it was taken.
        limited: chance of a refusal by a limit.
        mean_queue: wait in the batch queue.
        mean_boot: time from a start to the worker's joining.
        broken: spans of time in which the environment of blocks is broken.
        silent: spans of time in which listings fail.
        forgets: time for which ended jobs are still listed.
        mean_preempted: time until a running block is preempted; None: none is.
        mean_cancelled: time until a pending block is cancelled by others; None: none is.
        requeues: chance that a preempted block comes back into the queue.
        mean_crash: time until one worker of a block dies; None: none does.
        mean_blink: time until a connection breaks for a moment; None: none does.
        mean_head: time between ends of the head; None: it never ends.
        down_s: how long a head is away.
        elsewhere: chance of a refusal by one machine of several.
        stuck: spans of time in which the batch system keeps jobs that should start, and says that they never will.
        moved_at: time at which pools begin to reach their batch systems in another way; None: they never do.
    """

    calm_at: float
    mean_answer: float
    unclear: float
    twice: float
    late: float
    limited: float
    mean_queue: float
    mean_boot: float
    broken: tuple[tuple[float, float], ...]
    silent: tuple[tuple[float, float], ...]
    forgets: float
    mean_preempted: float | None
    mean_cancelled: float | None
    requeues: float
    mean_crash: float | None
    mean_blink: float | None
    mean_head: float | None
    down_s: float
    elsewhere: float
    moved_at: float | None
    stuck: tuple[tuple[float, float], ...]

    def is_broken(self, now: float) -> bool:
        """Return True while the environment of blocks is broken."""
        return any(begin <= now < end for begin, end in self.broken)

    def is_stuck(self, now: float) -> bool:
        """Return True while jobs that should start are kept."""
        return any(begin <= now < end for begin, end in self.stuck)

    def is_silent(self, now: float) -> bool:
        """Return True while listings fail."""
        return any(begin <= now < end for begin, end in self.silent)


def draw_weather(dice: Dice) -> Weather:
    """Return the weather of a world: each evil is there in some worlds, and absent in others."""
    calm_at = dice.between(1800.0, 14400.0)

    def sometimes(chance: float, most: float) -> float:
        return dice.between(0.0, most) if dice.chance(chance) else 0.0

    def spans(chance: float, longest: float) -> tuple[tuple[float, float], ...]:
        if not dice.chance(chance):
            return ()
        begins = [dice.between(0.0, calm_at) for _ in range(dice.below(3) + 1)]
        return tuple((begin, min(calm_at, begin + dice.between(10.0, longest))) for begin in begins)

    def every(chance: float, low: float, high: float) -> float | None:
        return dice.between(low, high) if dice.chance(chance) else None

    return Weather(
        calm_at=calm_at,
        mean_answer=dice.between(0.02, 8.0),
        unclear=sometimes(0.4, 0.5),
        twice=sometimes(0.2, 0.2),
        late=sometimes(0.2, 0.2),
        limited=sometimes(0.3, 0.5),
        mean_queue=dice.between(0.5, 400.0),
        mean_boot=dice.between(1.0, 40.0),
        broken=spans(0.3, 5000.0),
        silent=spans(0.4, 4000.0),
        forgets=dice.between(0.0, 300.0) if dice.chance(0.7) else 0.0,
        mean_preempted=every(0.3, 300.0, 5000.0),
        mean_cancelled=every(0.2, 100.0, 2000.0),
        requeues=sometimes(0.3, 0.8),
        mean_crash=every(0.3, 600.0, 6000.0),
        mean_blink=every(0.3, 300.0, 3000.0),
        mean_head=every(0.4, 200.0, 4000.0),
        down_s=dice.between(1.0, 600.0),
        elsewhere=sometimes(0.3, 0.6),
        moved_at=every(0.3, 60.0, calm_at),
        stuck=spans(0.2, 3000.0),
    )
