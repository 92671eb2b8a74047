"""Versions of the serializers that are installed here. The two ends of a connection compare them when they connect."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["serializer_versions"]

_SERIALIZERS = ("cloudpickle", "dill")


@lru_cache(maxsize=1)
def serializer_versions() -> dict[str, str]:
    """Return the version of each serializer, by name.

    The version is read from the name of the metadata folder beside the package. `importlib.metadata` is used only if
    there is no such folder, because its import takes longer than all the rest of a worker's start.

    >>> sorted(serializer_versions())
    ['cloudpickle', 'dill']
    """
    return {name: _beside(name) or _from_metadata(name) for name in _SERIALIZERS}


def _beside(name: str) -> str | None:
    spec = find_spec(name)
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for folder in Path(place).parent.glob(f"{name}-*.dist-info"):
            return folder.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return None


def _from_metadata(name: str) -> str:
    from importlib.metadata import version

    return version(name)
