"""Event loop of the running code, and what loops lack: wake-ups, alarms, fair turns, cancellation that takes effect."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.eventloop._alarm import Alarm
    from grainlike.eventloop._cancel_once import cancelled_once
    from grainlike.eventloop._cancellation import Cancellation, RepeatedCancellation, held_up, place_of
    from grainlike.eventloop._fairness import make_way, turns_of
    from grainlike.eventloop._home import (
        Home,
        forget_the_loop,
        here,
        name_the_loop,
        soon,
        soon_from_anywhere,
        spawn_detached,
    )
    from grainlike.eventloop._loop import loop_options, on_asyncio
    from grainlike.eventloop._wakeup import Bell, bells

__all__ = [
    "Alarm",
    "Bell",
    "Cancellation",
    "Home",
    "RepeatedCancellation",
    "bells",
    "cancelled_once",
    "forget_the_loop",
    "held_up",
    "here",
    "loop_options",
    "make_way",
    "name_the_loop",
    "on_asyncio",
    "place_of",
    "soon",
    "soon_from_anywhere",
    "spawn_detached",
    "turns_of",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Alarm": "_alarm",
            "Bell": "_wakeup",
            "Cancellation": "_cancellation",
            "Home": "_home",
            "RepeatedCancellation": "_cancellation",
            "bells": "_wakeup",
            "cancelled_once": "_cancel_once",
            "forget_the_loop": "_home",
            "held_up": "_cancellation",
            "here": "_home",
            "loop_options": "_loop",
            "make_way": "_fairness",
            "name_the_loop": "_home",
            "on_asyncio": "_loop",
            "place_of": "_cancellation",
            "soon": "_home",
            "soon_from_anywhere": "_home",
            "spawn_detached": "_home",
            "turns_of": "_fairness",
        },
    )
