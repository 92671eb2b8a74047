"""In which file a function of the main script is written: a part of its name, where results are kept by names."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

__all__ = ["main_file"]


def main_file(function: Callable[..., Any]) -> Path | None:
    """The file of a function or class of `__main__`; None where there is none, as at a prompt or in a notebook.

    `__main__` itself may be another's: at `python -m asyncio` it is that module, in all sessions of all projects.
    """
    code = _code(inspect.unwrap(function))
    name = getattr(sys.modules["__main__"], "__file__", None) if code is None else code.co_filename
    if name is None:
        return None
    path = Path(name).resolve()
    return path if any(part.is_file() for part in (path, *path.parents)) else None  # it may lie in a zip file


def _code(function: Any) -> CodeType | None:
    if isinstance(function, type):
        function = next((value for value in vars(function).values() if isinstance(value, FunctionType)), None)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
