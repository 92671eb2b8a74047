"""Markers and fixtures of pytest, as runners need them, which import modules of tests for the functions of jobs.

Pytest itself takes several times as long to import as a runner takes to start, and its decorators mean nothing there.
Any other name loads the real one.
"""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

if __name__ == "__main__":
    raise SystemExit(f"{__file__} runs no tests: the path of this process is that of a runner")


class _Ignored:
    """Everything that is done with it while a module is imported leaves functions as they are."""

    def __getattr__(self, name: str) -> "_Ignored":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        decorates = len(arguments) == 1 and not options and callable(arguments[0])
        return arguments[0] if decorates and not isinstance(arguments[0], _Ignored) else self

    def __getitem__(self, item: object) -> "_Ignored":
        return self

    def __or__(self, other: object) -> "_Ignored":
        return self

    __ror__ = __or__


mark = fixture = param = _Ignored()
MonkeyPatch = LogCaptureFixture = FixtureRequest = CaptureFixture = TempPathFactory = Config = Item = mark


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_real(), name)


@cache
def _real() -> ModuleType:
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]
    del sys.modules["pytest"]
    return import_module("pytest")
