"""Keys that settings may have, with the type of each."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SECTIONS", "Key"]


class Key(NamedTuple):
    """Key of the settings: the type of its value, its meaning, and the words that it may be, if only some."""

    type: type[str | bool | int | float]
    says: str
    choices: tuple[str, ...] = ()


_LEVELS = ("debug", "info", "warning", "error")

SECTIONS: dict[str, dict[str, Key]] = {
    "client": {
        "head": Key(str, "address or access file of the head that `connect()` and commands mean without one"),
    },
    "head": {
        "listen": Key(str, "address of `grainlike head start`"),
        "access": Key(str, "`head.json` of a cluster that has files"),
        "journal": Key(str, "directory of the journal"),
        "keep": Key(str, "how much named sessions may keep of outcomes, as `20Gi`"),
        "record": Key(bool, "keep where and when jobs ran, for `grainlike trace`"),
        "log_level": Key(str, "how much a head tells", _LEVELS),
    },
    "worker": {
        "head": Key(str, "address or access file of the head that `grainlike worker start` serves"),
        "resources": Key(str, "what a worker offers, as `cores=16 memory=64Gi`"),
        "context": Key(str, "`MODULE:FACTORY`: a context manager around each process that runs jobs"),
        "keep_scratch": Key(str, "whose scratch directories stay on the disk", ("failed", "always")),
        "wait": Key(bool, "wait for a head that does not listen yet"),
        "patience": Key(float, "seconds for which a head that keeps a journal may be away"),
        "idle": Key(str, "time without a job after which a worker ends, as `0:10:00`"),
        "store": Key(str, "shared memory for large values, as `8Gi`"),
        "scratch": Key(str, "directory on a disk for large values that do not fit there"),
        "scratch_limit": Key(str, "how much of that disk they may take, as `100Gi`"),
        "data": Key(str, "where other workers get large values from a worker, as `HOST:PORT`, or `off`"),
        "log_level": Key(str, "how much a worker tells", _LEVELS),
    },
    "cache": {
        "directory": Key(str, "directory of results that `cache=` keeps"),
    },
}
"""All keys by section. Each is read where it says; there are none that are not read."""
