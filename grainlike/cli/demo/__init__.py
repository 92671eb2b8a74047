"""`demo`: a real model selection on this machine's own cores, shown while it runs and measured afterwards.

It prints what it will do before it imports what does it, as that takes longer.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from grainlike.cli._exits import REFUSED
from grainlike.cli.demo._jobs import FOLDS, candidates

__all__ = ["demo"]


def demo(*, workers: int, picture: Path, baseline: bool, quick: bool) -> int:
    """Run the demonstration, with that many worker daemons or (0) an embedded worker; return the exit code."""
    if find_spec("sklearn") is None:
        print('grainlike demo: it needs scikit-learn: pip install "grainlike[demo]"', file=sys.stderr)  # noqa: T201
        return REFUSED
    load = os.getloadavg()[0]
    tried = candidates(quick=quick)
    fits = f"{len(tried)} candidates in {FOLDS} folds each, {len(tried) * FOLDS} fits"
    print(f"Model selection on handwritten digits: {fits}", flush=True)  # noqa: T201 - a command line speaks
    from grainlike.cli.demo._stages import run_stages

    return run_stages(tried, workers=workers, picture=picture, baseline=baseline, quick=quick, load=load)
