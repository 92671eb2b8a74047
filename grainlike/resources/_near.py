"""Search for the name that was probably meant."""

from collections.abc import Iterable

from grainlike.resources._kinds import KINDS

__all__ = ["near_name"]

_ALIKE = 0.8
"""From here on two names are taken for the same: `core` and `cores`, but not `gpu0` and `gpus`."""


def near_name(name: str, known: Iterable[str] = ()) -> str | None:
    """Give the name of a kind, or of what is `known`, that is most like `name`; None if none is, or if it is one.

    Example:
        >>> near_name("corse"), near_name("licence", ["license"]), near_name("foo")
        ('cores', 'license', None)
    """
    from difflib import get_close_matches  # only mistakes pay for the import

    names = sorted({*KINDS, *known})
    return None if name in names else next(iter(get_close_matches(name, names, 1, _ALIKE)), None)
