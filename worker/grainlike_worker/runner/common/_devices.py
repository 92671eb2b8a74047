"""Devices that CUDA shows to a job: the ids of its allocation, in terms of the mask that the worker was started with.

A batch system gives a worker two of a node's eight devices by starting it with `CUDA_VISIBLE_DEVICES=2,3`, or with the
devices' UUIDs. What the worker offers as its GPUs 0 and 1 are these two, and a job that is given GPU 0 is shown `2`.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile

from grainlike_worker.runner.common._thread_pools import loaded_any

__all__ = ["ORDER", "VISIBLE", "Devices", "device_library_loaded"]

VISIBLE = "CUDA_VISIBLE_DEVICES"

ORDER = "CUDA_DEVICE_ORDER"
"""Without it CUDA counts the fastest device first, and numbers mean something else to every other tool."""

_LIBRARIES = (b"/libcuda.so", b"/libcudart", b"/libamdhip64", b"/libze_loader")


class Devices:
    """Names of the ids of an offer in this machine's mask; without a mask, their numbers.

    >>> devices = Devices.under("2,GPU-8f", [0, 1])
    >>> devices.shown([1]), devices.ids("GPU-8f")
    ('GPU-8f', [1])
    """

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        self._names = names

    @classmethod
    def under(cls, mask: str | None, ids: Iterable[int]) -> "Devices":
        """Return the devices `ids` of an offer whose worker was started with this mask.

        Ids count the devices that the mask shows, as CUDA does. Only where one is beyond them, and all are numbers that
        stand in the mask, they are those. What is in no way shown by the mask is given out, and never shown.
        """
        if mask is None:
            return cls()
        # As CUDA reads it: up to the first that is none.
        entries = list(takewhile(lambda entry: entry not in ("", "-1"), map(str.strip, mask.split(","))))
        offered = list(ids)
        if any(number >= len(entries) for number in offered) and all(str(number) in entries for number in offered):
            return cls({number: str(number) for number in offered})
        return cls({number: entries[number] for number in offered if number < len(entries)})

    @classmethod
    def of_option(cls, text: str) -> "Devices":
        """Return the devices that `option` wrote."""
        pairs = (pair.partition("=") for pair in text.split(",") if pair)
        return cls({int(number): name for number, _, name in pairs})

    @property
    def option(self) -> list[str]:
        """For the command line of a runner."""
        if self._names is None:
            return []
        return ["--devices", ",".join(f"{number}={name}" for number, name in self._names.items())]

    def hidden(self, ids: Iterable[int]) -> list[int]:
        """Return those of `ids` that no job will ever be shown."""
        return [] if self._names is None else [number for number in ids if number not in self._names]

    def shown(self, ids: Iterable[int]) -> str:
        """Return the mask of a job with these devices. Without any it is empty, not absent, which would show all."""
        if self._names is None:
            return ",".join(map(str, ids))
        return ",".join(self._names[number] for number in ids if number in self._names)

    def ids(self, mask: str) -> list[int]:
        """Return the devices that a job's mask shows, ascending."""
        entries = [entry.strip() for entry in mask.split(",")]
        if self._names is None:
            return sorted(int(entry) for entry in entries if entry.isdecimal())
        return sorted(number for number, name in self._names.items() if name in entries)


def device_library_loaded() -> bool:
    """Return True if this process has loaded a library that reads the mask once and for all."""
    return loaded_any(_LIBRARIES, unknown=False)
