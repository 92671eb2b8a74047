"""Figures of the source tree: how large its rooms are, what its names share, and how many files a call passes.

Print them, with what they were and are to be, or the culprits of one row::

    make house
    make house ARGS="--list circles"
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCES = {"grainlike": ROOT / "grainlike", "grainlike_worker": ROOT / "worker" / "grainlike_worker"}
OPENINGS = ("What", "Whether", "See", "One", "It")
"""First words of docstrings that name nothing."""

SMALL = 50
"""Lines below which a file with one user is hardly a file."""


class Row(NamedTuple):
    """One figure: its value in the beginning, the most that it is to be and may be today, and how to find culprits.

    `bound` only falls: whoever lowers a figure lowers it, too.
    """

    name: str
    says: str
    before: int
    target: int
    bound: int
    culprits: Callable[[], list[str]]
    is_count: bool = True
    """False if `culprits` gives lines that end with a number, the largest of which is the figure."""

    def measure(self) -> int:
        """Return the figure as it is now."""
        found = self.culprits()
        return len(found) if self.is_count else max((int(line.rsplit(" ", 1)[1]) for line in found), default=0)


# --- sources ---------------------------------------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """Return the files of both packages by the names of their modules."""
    found: dict[str, Path] = {}
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed file."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the parsed file: to walk through it takes as long as to parse it."""
    return tuple(ast.walk(tree(path)))


@cache
def imports(name: str) -> frozenset[str]:
    """Return the modules of both packages that a module imports, lazily and for types included."""
    known = modules()
    found: set[str] = set()
    for node in nodes(known[name]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(inner & known.keys() or {node.module})
    return frozenset(found - {name})


def room_of(name: str) -> str:
    """Return the package below the top in which a module is."""
    return ".".join(name.split(".")[:2])


def _lines(path: Path) -> int:
    return path.read_text().count("\n")


# --- rows ------------------------------------------------------------------------------------------------------------


def _shares() -> list[str]:
    sizes: dict[str, int] = defaultdict(int)
    for name, path in modules().items():
        sizes[room_of(name)] += _lines(path)
    whole = sum(sizes.values())
    return [f"{room}: per cent of the lines: {round(100 * size / whole)}" for room, size in sorted(sizes.items())]


def _folders() -> list[str]:
    count: dict[Path, int] = defaultdict(int)
    for path in modules().values():
        count[path.parent] += 1
    return [f"{folder.relative_to(ROOT)}: files: {number}" for folder, number in sorted(count.items())]


def _small() -> list[str]:
    users: dict[str, int] = defaultdict(int)
    for name in modules():
        for other in imports(name):
            users[other] += 1
    return [
        f"{path.relative_to(ROOT)}: {_lines(path)} lines"
        for name, path in modules().items()
        if not path.name.startswith("__") and users[name] == 1 and _lines(path) < SMALL
    ]


def _repeated() -> list[str]:
    where: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                where[node.name].append(name)
    return [f"{name}: {', '.join(places)}" for name, places in sorted(where.items()) if len(places) > 1]


def _openings() -> list[str]:
    found = []
    for path in modules().values():
        for node in nodes(path):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                doc = ast.get_docstring(node) or ""
                if doc.split(" ", 1)[0].strip(".,:;`") in OPENINGS:
                    found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {doc.splitlines()[0]}")
    return found


def _circles() -> list[str]:
    """Strongly connected files of one room, by Tarjan's algorithm; a package's front and what it loads count as one."""
    found: list[str] = []
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(_of_room(name)):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            circle, stack[at:] = stack[at:], []
            if len(circle) > 1:
                found.append(", ".join(sorted(circle)))

    for name in modules():
        if name not in order:
            visit(name)
    return found


def _of_room(name: str) -> Iterator[str]:
    known = modules()
    for other in imports(name):
        if room_of(other) == room_of(name) and "__init__.py" not in (known[other].name, known[name].name):
            yield other


def _private() -> list[str]:
    return [
        f"{name}: {other}"
        for name in modules()
        if name.startswith(("grainlike.cli", "grainlike.adapters"))
        for other in sorted(imports(name))
        if room_of(other) != room_of(name) and "._" in other.removeprefix(room_of(other)) and other.count(".") > 1
    ]


def _long() -> list[str]:
    return [f"{path.relative_to(ROOT)}: lines: {_lines(path)}" for path in modules().values()]


def _bodies() -> list[str]:
    """Bodies of functions, without signatures and docstrings; a long `__init__` sets fields."""
    found = []
    for path in modules().values():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
                first = node.body[1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0]
                size = (node.end_lineno or 0) - first.lineno + 1
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}: lines: {size}")
    return found


# --- calls -----------------------------------------------------------------------------------------------------------

_WATCH = """
import sys, threading
from grainlike import Cores, Executor, connect, delayed, run

calls = []

def watch(frame, event, arg):
    if event == "call":
        calls[-1].add(frame.f_code.co_filename)

@delayed
def plain(x):
    return x

async def measure():
    one = plain @ Cores(1)
    for x in range(3):
        await one(x)
    for x in range(3, 8):
        calls.append(set())
        sys.setprofile(watch)
        await one(x)
        sys.setprofile(None)

async def main():
    if sys.argv[1] == "embedded":
        async with Executor(local=Cores(1)):
            await measure()
    else:
        async with Executor(listen="tcp://127.0.0.1:0", local=Cores(1)) as head:
            async with connect(head.address) as client:
                await client.wait_for_workers(1)
                await measure()

run(main, local=None)
for name in sorted(set.intersection(*calls)):
    if "/grainlike/" in name or "/grainlike_worker/" in name:
        print(name)
"""


@cache
def _passed(how: str) -> list[str]:
    """Return the files that each of several warm calls of a plain function passes in the program's process, both ways:
    what is due by the clock falls into some of them.
    """
    command = [sys.executable, "-c", _WATCH, how]
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **paths})
    return [str(Path(line).relative_to(ROOT)) for line in done.stdout.split()]


ROWS = (
    Row("share", "biggest room, per cent of the lines", 22, 12, 12, _shares, is_count=False),
    Row("folder", "most files in a folder", 89, 25, 25, _folders, is_count=False),
    Row("longest", "longest file, lines", 658, 450, 615, _long, is_count=False),
    Row("function", "longest body of a function, lines", 99, 50, 59, _bodies, is_count=False),
    Row("small", "files under 50 lines with one user", 91, 15, 15, _small),
    Row("names", "class names used more than once", 40, 5, 5, _repeated),
    Row("embedded", "files that a call on an embedded executor passes", 65, 45, 64, partial(_passed, "embedded")),
    Row(
        "client",
        "files that a client's call passes, head and worker included",
        84,
        60,
        85,
        partial(_passed, "client"),
    ),
    Row("openings", "docstrings that begin with What, Whether, See, One, It", 621, 0, 0, _openings),
    Row("circles", "circles of files inside a room", 5, 0, 0, _circles),
    Row("private", "private modules of other rooms that cli and adapters import", 14, 0, 0, _private),
)


def main() -> None:
    """Print the table, or the culprits of a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", choices=[row.name for row in ROWS], help="print what makes up a row")
    chosen = parser.parse_args().list
    if chosen is not None:
        print(*next(row for row in ROWS if row.name == chosen).culprits(), sep="\n")
        return
    print(f"{'row':10}{'before':>8}{'target':>8}{'now':>8}")
    for row in ROWS:
        print(f"{row.name:10}{row.before:8}{row.target:8}{row.measure():8}  {row.says}")


if __name__ == "__main__":
    main()
