"""`cache ls` and `cache rm`: results that are kept on disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grainlike.cache import ResultStore, StoredResult, results_directory
from grainlike.cli._exits import FAILED, OK, REFUSED, is_of_output
from grainlike.cli._words import bytes_text, escaped, print_json, print_table

__all__ = ["list_results", "remove_results"]

_UNFINISHED_S = 3600
"""Seconds without a change after which an unfinished file will not be finished."""

_DAY_S = 86_400.0


@dataclass(slots=True)
class _FunctionResults:
    """The results of one version of a function."""

    function: str
    version: str
    results: int = 0
    bytes: int = 0
    newest: float = 0.0

    def add(self, kept: StoredResult) -> None:
        self.results += 1
        self.bytes += kept.size
        self.newest = max(self.newest, kept.created)


def list_results(*, as_json: bool) -> int:
    """Print what is kept, by function and version."""
    return _reading(lambda results: _list(results, as_json=as_json))


def remove_results(functions: Sequence[str], *, version: str | None, older_days: float | None, everything: bool) -> int:
    """Remove results that fit all criteria; return 1 when none does.

    A function is named as `cache ls` shows it, or by its own name alone.
    """

    def fits(kept: StoredResult) -> bool:
        named = everything or any(one in (kept.function, kept.function.rpartition(":")[2]) for one in functions)
        of_version = version is None or kept.version == version
        return named and of_version and (older_days is None or kept.created < time.time() - older_days * _DAY_S)

    return _reading(lambda results: _remove(results, fits))


def _reading(work: Callable[[ResultStore], int]) -> int:
    try:
        return work(ResultStore(results_directory()))
    except BrokenPipeError:
        raise  # nobody reads what we print
    except OSError as error:
        if is_of_output(error):
            raise
        print(f"grainlike: {escaped(str(error))}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return REFUSED


def _list(results: ResultStore, *, as_json: bool) -> int:
    groups: dict[tuple[str, str], _FunctionResults] = {}
    for _, kept in results:
        groups.setdefault((kept.function, kept.version), _FunctionResults(kept.function, kept.version)).add(kept)
    rows = [groups[key] for key in sorted(groups)]
    if as_json:
        print_json([{name: getattr(row, name) for name in _FunctionResults.__slots__} for row in rows])
    elif not rows:
        print(f"no results in {results.directory}")  # noqa: T201
    else:
        now = time.time()
        ages = [f"{max(now - row.newest, 0) / _DAY_S:.1f} days" for row in rows]
        cells = [(row.function, row.version, str(row.results), bytes_text(row.bytes)) for row in rows]
        titles = ["function", "version", "results", "kept", "newest"]
        print_table(titles, [(*row, age) for row, age in zip(cells, ages, strict=True)])
    return OK


def _remove(results: ResultStore, fits: Callable[[StoredResult], bool]) -> int:
    found: list[tuple[Path, StoredResult]] = [(path, kept) for path, kept in results if fits(kept)]
    for path, _ in found:
        results.remove(path)
    results.tidy(time.time() - _UNFINISHED_S)
    many = "1 result" if len(found) == 1 else f"{len(found):,} results"
    print(f"removed {many}, {bytes_text(sum(kept.size for _, kept in found)) or 'no bytes'}")  # noqa: T201
    return OK if found else FAILED
