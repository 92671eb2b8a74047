"""Search for the name that was probably meant."""

from collections.abc import Iterable

from grainlike.resources._kinds import CORES, KINDS, MEMORY

__all__ = ["near_name"]

_ALIKE = 0.8
"""From here on two names are taken for the same: `core` and `cores`, but not `gpu0` and `gpus`."""

_MEANT = {"mem": MEMORY, "ram": MEMORY, "cpu": CORES, "cpus": CORES, "threads": CORES}
"""Names that other systems have for our kinds."""


def near_name(name: str, known: Iterable[str] = ()) -> str | None:
    """Return the name of a kind, or of what is `known`, that `name` seems to mean; None if none, or if it is one.

    Example:
        >>> near_name("corse"), near_name("licence", ["license"]), near_name("foo"), near_name("mem")
        ('cores', 'license', None, 'memory')
    """
    from difflib import get_close_matches  # only mistakes pay for the import

    names = sorted({*KINDS, *known})
    if name in names:
        return None
    return _MEANT.get(name.lower()) or next(iter(get_close_matches(name, names, 1, _ALIKE)), None)
