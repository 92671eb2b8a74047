"""Event loop of the running code, and what loops lack: wake-ups, alarms, fair turns, brief polling, cancellation that
takes effect, and generators that run ahead of their readers.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.eventloop._cancel_once import cancel_once
    from grainlike.eventloop._cancellation import Cancellation, RepeatedCancellation, held_up, place_of, place_of_frame
    from grainlike.eventloop._fairness import fairness_of, stays, yield_turn
    from grainlike.eventloop._generators import advance
    from grainlike.eventloop._lifespan import Changes, Lifespan
    from grainlike.eventloop._loop_id import (
        EventLoopId,
        forget_the_loop,
        here,
        is_here,
        name_the_loop,
        soon,
        soon_from_anywhere,
        spawn_detached,
    )
    from grainlike.eventloop._rhythm import LOOP_POLL_S, RUNNER_POLL_S, Rhythm
    from grainlike.eventloop._wakeup import Alarm, LoopRhythm, Wakeup, loop_options, new_wakeup, on_asyncio, polling_of

__all__ = [
    "LOOP_POLL_S",
    "RUNNER_POLL_S",
    "Alarm",
    "Cancellation",
    "Changes",
    "EventLoopId",
    "Lifespan",
    "LoopRhythm",
    "RepeatedCancellation",
    "Rhythm",
    "Wakeup",
    "advance",
    "cancel_once",
    "fairness_of",
    "forget_the_loop",
    "held_up",
    "here",
    "is_here",
    "loop_options",
    "name_the_loop",
    "new_wakeup",
    "on_asyncio",
    "place_of",
    "place_of_frame",
    "polling_of",
    "soon",
    "soon_from_anywhere",
    "spawn_detached",
    "stays",
    "yield_turn",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Alarm": "_wakeup",
            "Wakeup": "_wakeup",
            "advance": "_generators",
            "Cancellation": "_cancellation",
            "Changes": "_lifespan",
            "Lifespan": "_lifespan",
            "EventLoopId": "_loop_id",
            "RepeatedCancellation": "_cancellation",
            "LoopRhythm": "_wakeup",
            "Rhythm": "_rhythm",
            "LOOP_POLL_S": "_rhythm",
            "RUNNER_POLL_S": "_rhythm",
            "new_wakeup": "_wakeup",
            "cancel_once": "_cancel_once",
            "forget_the_loop": "_loop_id",
            "held_up": "_cancellation",
            "here": "_loop_id",
            "is_here": "_loop_id",
            "loop_options": "_wakeup",
            "stays": "_fairness",
            "yield_turn": "_fairness",
            "name_the_loop": "_loop_id",
            "on_asyncio": "_wakeup",
            "place_of": "_cancellation",
            "place_of_frame": "_cancellation",
            "polling_of": "_wakeup",
            "soon": "_loop_id",
            "soon_from_anywhere": "_loop_id",
            "spawn_detached": "_loop_id",
            "fairness_of": "_fairness",
        },
    )
