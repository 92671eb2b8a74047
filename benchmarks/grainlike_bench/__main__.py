"""Runs the benchmarks named on the command line, or all of them: each `bench_NAME.py` here has a `main()`.

`targets` and `compare` are other things, with options of their own: the rows of the table of targets, and two revisions
of grainlike beside each other.
"""

import importlib
import platform
import sys
from pathlib import Path

_COMMANDS = {"targets": "grainlike_bench.targets", "compare": "grainlike_bench.revisions"}


def main(names: list[str]) -> int:
    if names and names[0] in _COMMANDS:
        return int(importlib.import_module(_COMMANDS[names[0]]).main(names[1:]))
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(
            f"no benchmark named {', '.join(unknown)}; there are: {', '.join(_COMMANDS)}, {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    print(f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}")
    missing = [name for name in names or known if not _measured(name)]
    return int(bool(missing))


def _measured(name: str) -> bool:
    """Run one benchmark; return False if a module is missing that it needs, and say which."""
    try:
        benchmark = importlib.import_module(f"grainlike_bench.bench_{name}")
    except ModuleNotFoundError as error:
        hint = ", which is only in a checkout" if error.name == "simtest" else ""
        print(f"{name}: not measured: it needs the module {error.name}{hint}", file=sys.stderr)
        return False
    benchmark.main()
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
