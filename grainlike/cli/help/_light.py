"""Help without what its text does not show: parameters of other commands, and libraries that draw none of it.

Typer's module for help imports rich's Markdown and tracebacks with all that those take, which is half of the time that
help takes. Ours is in rich's markup, and tracebacks are Python's.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import typer
from typer.models import CommandInfo, TyperInfo

__all__ = ["contents_of", "draw_light", "explain_light"]

Command = TypeVar("Command", CommandInfo, TyperInfo)

_UNDRAWN = ("rich.markdown", "rich.traceback")

_UsageError: Any = typer.BadParameter.__base__
"""Class of all that is said about wrong usage, which typer does not name."""


def contents_of(program: typer.Typer) -> typer.Typer:
    """Return the program for its help, or to say that there is no such command: commands without their parameters, as
    to look at all of those takes longer than all else.
    """
    shown = copy(program)
    shown.registered_commands = [_without_parameters(command) for command in program.registered_commands]
    shown.registered_groups = [copy(group) for group in program.registered_groups]
    for group in shown.registered_groups:
        group.typer_instance = commands = copy(group.typer_instance)
        assert commands is not None
        commands.registered_commands = []
        if commands.registered_callback is not None:
            commands.registered_callback = _without_parameters(commands.registered_callback)
    return shown


def _without_parameters(command: Command) -> Command:
    shown = copy(command)
    shown.help = command.help or inspect.getdoc(command.callback)
    shown.callback = _nothing
    return shown


def _nothing() -> None:
    """Do nothing: it stands for a command of which only the help is shown."""


def draw_light(command: Any) -> None:
    """Let a command of typer's draw its help without libraries that draw none of it."""
    command.format_help = partial(_draw, command.format_help)


def _draw(draw: Callable[[Any, Any], None], context: Any, formatter: Any) -> None:
    _load_what_draws()
    draw(context, formatter)


def explain_light(program: Any) -> None:
    """Let the whole program of typer's explain wrong usage without libraries that draw none of it."""
    program.make_context = partial(_explaining, program.make_context)
    program.invoke = partial(_explaining, program.invoke)


def _explaining(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return run(*args, **kwargs)
    except _UsageError:
        _load_what_draws()
        raise


def _load_what_draws() -> None:
    with _loaded_late(*_UNDRAWN), suppress(ImportError):  # another release of typer may draw in another module
        import_module("typer.rich_utils")


@contextmanager
def _loaded_late(*names: str) -> Iterator[None]:
    """Context manager: who imports a class of these modules inside of it gets one that loads the module when it is
    used. Modules that are loaded already stay as they are.
    """
    late = {name: _LateModule(name) for name in names if name not in sys.modules}
    sys.modules.update(late)
    try:
        yield
    finally:
        for name in late:
            del sys.modules[name]


class _LateModule(ModuleType):
    """Stands for a module that is not loaded."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _LateClass(name, (), {"__module__": self.__name__})


class _LateClass(type):
    """Class of the classes that stand for one of a module that is not loaded."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        return cls._loaded()(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._loaded(), name)

    def _loaded(cls) -> Any:
        return getattr(import_module(cls.__module__), cls.__name__)
