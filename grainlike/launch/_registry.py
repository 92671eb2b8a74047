"""Registry of launchers: the class of pools for each kind in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

from grainlike.launch._pool import POOL_NAME, WorkerPool, keys_of
from grainlike.settings import read_settings

__all__ = ["LAUNCHERS", "load", "pool_class_of", "pool_from"]


LAUNCHERS: dict[str, str] = {
    "slurm": "_batch_pools:Slurm",
    "pbs": "_batch_pools:PBS",
    "lsf": "_batch_pools:LSF",
    "sge": "_batch_pools:SGE",
    "ssh": "_other_pools:SSH",
    "local": "_other_pools:Local",
    "k8s": "_other_pools:Kubernetes",
}
"""Classes of pools by kind, as `module:class` in this room; each is loaded when it is first used. A new kind needs a
class, which names its dialect, and a line here.
"""


def pool_class_of(kind: str) -> type[WorkerPool]:
    """Return the class of the pools of a kind in `LAUNCHERS`."""
    module, _, name = LAUNCHERS[kind].partition(":")
    found: type[WorkerPool] = getattr(import_module(f"grainlike.launch.{module}"), name)
    return found


def pool_from(mapping: Mapping[str, object], name: str) -> WorkerPool:
    """Return the pool that a table `[pool.NAME]` of the settings describes; `extends` has been resolved before.

    Args:
        mapping: keys and values, in types of TOML. Without `kind`, a `name` that is a kind is used as the kind.
        name: the pool's name, for errors.

    Raises:
        ValueError: an unknown kind or key, with the nearest known one; or an impossible value.

    Example::

        >>> pool_from({"kind": "slurm", "walltime": "4:00:00", "max": 8}, "cpu")
        Slurm(walltime='4:00:00', max=8)
    """
    where = f"[pool.{name}]"
    if not POOL_NAME.fullmatch(name):
        raise ValueError(f"{where} {name!r} is no name of a pool: letters, digits and _ . - make up to 40")
    kind = mapping.get("kind", name if name in LAUNCHERS else None)
    if not isinstance(kind, str) or kind not in LAUNCHERS:
        said = "it is missing" if kind is None else f"{kind!r} is none"
        raise ValueError(f"{where} kind: {said}{_nearest(str(kind), list(LAUNCHERS))}")
    chosen = pool_class_of(kind)
    keys = keys_of(chosen)
    given = {key: value for key, value in mapping.items() if key != "kind"}
    for key in given:
        if key not in keys:
            raise ValueError(f"{where} {key}: {_unknown(kind, key, keys)}")
    try:
        return chosen(**given)  # type: ignore[arg-type]  # each value is checked there
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None


def load(name: str) -> WorkerPool:
    """Return the pool that the settings describe as `[pool.NAME]`.

    Raises:
        SettingsError: there is no such pool, or the settings are wrong.
        ValueError: a key or value of the pool is wrong; the error names the file.

    Example::

        pool = load("cpu")
        print(await pool.check())
    """
    table = read_settings().pool(name)
    try:
        return pool_from({key: setting.value for key, setting in table.items()}, name)
    except ValueError as error:
        files = ", ".join(dict.fromkeys(setting.origin for setting in table.values()))
        raise ValueError(f"{files}: {error}") from None


def _unknown(kind: str, key: str, keys: list[str]) -> str:
    others = [other for other in LAUNCHERS if key in keys_of(pool_class_of(other))]
    if others:
        return f"a pool of kind {kind} has none; those of kind {', '.join(others)} do"
    return f"there is no such key{_nearest(key, [*keys, 'kind'])}"


def _nearest(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
