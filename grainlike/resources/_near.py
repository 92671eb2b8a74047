"""Which name somebody may have meant."""

from collections.abc import Iterable

from grainlike.resources._kinds import CORES, GPUS, MEMORY

__all__ = ["near_name"]

_BUILT_IN = (CORES, GPUS, MEMORY)
_ALIKE = 0.8
"""From here on two names are taken for the same: `core` and `cores`, but not `gpu0` and `gpus`."""


def near_name(name: str, known: Iterable[str] = ()) -> str | None:
    """Give the name of a kind, or of what is `known`, that is most like `name`; None if none is, or if it is one.

    Example:
        >>> near_name("corse"), near_name("licence", ["license"]), near_name("foo")
        ('cores', 'license', None)
    """
    from difflib import get_close_matches  # only mistakes pay for the import

    names = sorted({*_BUILT_IN, *known})
    return None if name in names else next(iter(get_close_matches(name, names, 1, _ALIKE)), None)
