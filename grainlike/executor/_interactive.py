"""Kinds of programs that a person types into: the kernel of a notebook, and a prompt in a terminal."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["is_notebook", "is_prompt"]


def is_notebook() -> bool:
    """Return True in the kernel of a notebook, which has displays; IPython in a terminal has none."""
    return getattr(_shell(), "kernel", None) is not None


def is_prompt() -> bool:
    """Return True in a REPL: IPython in a terminal, `python`, `python -m asyncio`."""
    return not is_notebook() and (_shell() is not None or hasattr(sys, "ps1"))


def _shell() -> Any:
    module = sys.modules.get("IPython")
    find = getattr(module, "get_ipython", None)
    return None if find is None else find()
