"""The command `grainlike bench`: figures of grainlike beside those of what else is installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path

from grainlike.system import LateFile
from grainlike_bench.compare._measure import measure
from grainlike_bench.compare._picture import picture
from grainlike_bench.compare._table import facts, table
from grainlike_bench.compare._workloads import WORKLOADS
from grainlike_bench.compare.systems import SYSTEMS, installed

__all__ = ["ChoiceError", "bench", "show_systems"]


class ChoiceError(ValueError):
    """A system or workload that there is not, or that cannot be measured here."""


def bench(
    systems: list[str],
    workloads: list[str],
    *,
    size: int | None,
    rounds: int,
    limit_s: float,
    drawing: Path | None,
    as_json: bool,
) -> int:
    """Measure, draw if asked, and print; progress goes to standard error. Return 1 if a system failed, or else 0.

    Raises:
        ChoiceError: an unknown or missing system, an unknown workload, or a size that belongs to none in particular.
    """
    chosen = _systems(systems)
    sizes = _sizes(workloads, size)
    with nullcontext() if drawing is None else LateFile(drawing) as file:
        found = measure(chosen, sizes, rounds=rounds, limit_s=limit_s, progress=_say)
        print(json.dumps(facts(found, sizes)) if as_json else table(found, sizes))
        if file is not None:
            file.write(picture(found, sizes))
    return int(any(figures.failure for figures in found))


def show_systems() -> int:
    """Print what can be measured, and what to install for the rest. Return 0."""
    for name, system in SYSTEMS.items():
        state = "installed" if installed(name) else f"not installed: pip install {system.package}"
        print(f"{name:26} {system.name:42} {state}")
    return 0


def _systems(names: list[str]) -> list[str]:
    _known(names, SYSTEMS, "system")
    missing = [name for name in names if not installed(name)]
    if missing:
        packages = " ".join(str(SYSTEMS[name].package) for name in missing)
        raise ChoiceError(f"{', '.join(missing)}: not installed here; pip install {packages}")
    return list(dict.fromkeys(names)) or [name for name in SYSTEMS if installed(name)]


def _sizes(names: list[str], size: int | None) -> dict[str, int]:
    _known(names, WORKLOADS, "workload")
    if size is not None and len(set(names)) != 1:
        raise ChoiceError("--size belongs to one workload: name it with --workload")
    chosen = list(dict.fromkeys(names)) or list(WORKLOADS)
    return {name: size if size is not None else WORKLOADS[name].size for name in chosen}


def _known(names: Iterable[str], known: Mapping[str, object], what: str) -> None:
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise ChoiceError(f"no {what} is named {name!r}{hint} There are: {', '.join(known)}")


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
