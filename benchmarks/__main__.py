"""Runs the benchmarks named on the command line, or all of them: each `bench_NAME.py` here has a `main()`.

`targets` is another thing: it measures the rows of the table of targets, and takes options of its own.
"""

import importlib
import platform
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    if names[:1] == ["targets"]:
        return int(importlib.import_module("benchmarks.targets").main(names[1:]))
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are: targets, {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}")
    for name in names or known:
        importlib.import_module(f"benchmarks.bench_{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
