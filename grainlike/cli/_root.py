"""The program and what its commands share; `_commands_*` add the commands."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from grainlike import __version__
from grainlike.cli._exits import FAILED, INTERRUPTED, UNREAD

__all__ = [
    "HELP_OPTIONS",
    "MODULES",
    "Head",
    "Insecure",
    "JobNumber",
    "Json",
    "KeepScratch",
    "LogLevel",
    "Watch",
    "access_app",
    "app",
    "blocks_app",
    "cache_app",
    "config_app",
    "exit_with",
    "head_app",
    "journal_app",
    "pools_app",
    "sessions_app",
    "whole_app",
    "worker_app",
]

MODULES = {
    "_commands_cluster": ("access", "config", "doctor", "head", "submit"),
    "_commands_learn": ("bench", "demo", "simulate"),
    "_commands_look": (
        *("cache", "cancel", "dashboard", "explain", "jobs", "journal", "logs", "ls", "report", "sessions", "top"),
        "trace",
    ),
    "_commands_pools": ("blocks", "down", "pools", "scale", "up"),
    "_commands_worker": ("worker",),
    "completion._command": ("completion",),
}
"""Modules that add commands to the program when they are imported, and the first words of those commands."""

_EXAMPLES = """[bold]Examples[/bold]

[dim]# see it work, on the cores of this machine[/dim]
grainlike demo

[dim]# serve the head that runs here with all cores that this process may use[/dim]
grainlike worker start

"grainlike COMMAND --help" shows more.
"""

HELP_OPTIONS = ("-h", "--help")

_SETTINGS = {"help_option_names": list(HELP_OPTIONS)}

app = typer.Typer(
    name="grainlike",
    help="Async-native delayed objects on exact, enforced resources.",
    epilog=_EXAMPLES,
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    context_settings=_SETTINGS,
    pretty_exceptions_enable=False,
)
worker_app = typer.Typer(help="Serve this machine's slots to a head.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(worker_app, name="worker", rich_help_panel="Run a cluster")
access_app = typer.Typer(help="Who may join a cluster.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(access_app, name="access", rich_help_panel="Run a cluster")
head_app = typer.Typer(help="The process that owns a queue.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(head_app, name="head", rich_help_panel="Run a cluster")
cache_app = typer.Typer(help="Results that are kept on disk.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(cache_app, name="cache", rich_help_panel="Look at a cluster")
journal_app = typer.Typer(help="What a head keeps on disk.", no_args_is_help=True, context_settings=_SETTINGS)
app.add_typer(journal_app, name="journal", rich_help_panel="Look at a cluster")
config_app = typer.Typer(
    help="Defaults from files and the environment.", no_args_is_help=True, context_settings=_SETTINGS
)
app.add_typer(config_app, name="config", rich_help_panel="Run a cluster")
sessions_app = typer.Typer(invoke_without_command=True, context_settings=_SETTINGS)
app.add_typer(sessions_app, name="sessions", rich_help_panel="Look at a cluster")

pools_app = typer.Typer(invoke_without_command=True, context_settings=_SETTINGS)
app.add_typer(pools_app, name="pools", rich_help_panel="Get workers")
blocks_app = typer.Typer(invoke_without_command=True, context_settings=_SETTINGS)
app.add_typer(blocks_app, name="blocks", rich_help_panel="Get workers")


def whole_app() -> typer.Typer:
    """Return the program with all its commands."""
    for module in MODULES:
        import_module(f"grainlike.cli.{module}")
    return app


def _checked_pause(value: float | None) -> float | None:
    if value is not None and not 0.1 <= value <= 3600:
        raise typer.BadParameter(f"{value:g} is not between 0.1 and 3600 seconds")
    return value


Head = Annotated[
    str | None,
    typer.Option("--head", metavar="ADDRESS_OR_ACCESS_FILE", help="Whom to ask. By default the head that runs here."),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Ask a head that has no TLS, on this machine's loopback alone.")
]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="[SECONDS]",
        callback=_checked_pause,
        help="Show it again when it has changed, every 2 s at most unless said, until Ctrl-C.",
    ),
]
JobNumber = Annotated[
    int,
    typer.Argument(min=1, max=2**63 - 1, metavar="JOB", help="The job's number, as `grainlike jobs --all` shows it."),
]


class KeepScratch(StrEnum):
    """Jobs of which a worker leaves the scratch directories on the disk."""

    FAILED = "failed"
    ALWAYS = "always"


class LogLevel(StrEnum):
    """Level of a worker's log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def exit_with(run: Callable[[], int]) -> NoReturn:
    """End with the exit code of a command, or of Ctrl-C."""
    if not gc.isenabled():  # as `main` left it while the command was loaded
        gc.freeze()
        gc.enable()
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it ends
        code = UNREAD
    except OSError as error:  # a full disk, for one; what was asked of a head has its own errors
        print(f"grainlike: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except KeyboardInterrupt:
        print("grainlike: interrupted", file=sys.stderr)  # noqa: T201 - a command line speaks
        code = INTERRUPTED
    raise typer.Exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"grainlike {__version__}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Async-native delayed objects on exact, enforced resources."""
