"""Check that a context module is there, before a worker offers anything."""

import os
import subprocess
import sys
from pathlib import Path

from grainlike_worker.daemon._child import with_our_paths
from grainlike_worker.runner.common._context import import_factory

__all__ = ["check_context", "why_not"]


def why_not(spec: str) -> str | None:
    """Why runners of this worker could not even import the factory; None if they can.

    Found out in a process of its own: a worker's daemon never runs users' code.
    """
    command = [
        sys.executable,
        "-P",
        "-c",
        "from grainlike_worker.daemon._check_context import check_context; check_context()",
        spec,
    ]
    environment, _ = with_our_paths(os.environ)
    done = subprocess.run(  # noqa: S603 - our own interpreter and function
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def check_context() -> None:
    """Try to import what the command line names; tell in one line what stands in the way."""
    sys.path.append(str(Path.cwd()))
    try:
        import_factory(sys.argv[1])
    except BaseException as error:  # noqa: BLE001 - it is users' code, which may raise anything
        sys.exit(f"{type(error).__name__}: {error}")
