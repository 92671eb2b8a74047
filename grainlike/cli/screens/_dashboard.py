"""`dashboard`: pages about a running head for browsers, from a process of its own; and those that a head has itself."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from grainlike.cli._exits import OK, REFUSED, USAGE
from grainlike.cli._words import escaped
from grainlike.client import call
from grainlike.errors import GrainlikeError, SettingsError
from grainlike.eventloop import loop_options

if TYPE_CHECKING:  # it takes more packages
    from grainlike.client import HeadClient
    from grainlike.dashboard import Dashboard

__all__ = ["beside_head", "serve_dashboard"]


def serve_dashboard(head: str | None, listen: tuple[str, int], *, insecure: bool, opens: bool) -> int:
    """Serve the pages until Ctrl-C; return the exit code: 2 without the packages, 3 without a head, or where it cannot
    listen. With `opens`, the browser of this desktop is shown the first link.
    """
    try:
        from grainlike.dashboard import Dashboard
    except ImportError as error:
        return _failed(error, USAGE)

    async def main() -> None:
        async with call(head, insecure=insecure):
            pass  # there is a head, and it lets us in
        dashboard = Dashboard(lambda: call(head, insecure=insecure), listen)
        _warn_if_open(dashboard)
        async with anyio.create_task_group() as tasks:
            await tasks.start(dashboard.serve)
            print(f"dashboard: {dashboard.link()}", flush=True)  # noqa: T201 - a command line speaks
            with _browser(dashboard.link) if opens and _has_desktop() else nullcontext():
                if sys.stdin.isatty():
                    print("Enter prints another link, for another browser; Ctrl-C ends it", flush=True)  # noqa: T201
                    tasks.start_soon(_print_links, dashboard.link)
                await anyio.sleep_forever()

    try:
        anyio.run(main, backend_options=loop_options())
    except SettingsError as error:
        return _failed(error, USAGE)
    except (GrainlikeError, OSError, ValueError) as error:
        return _failed(error, REFUSED)
    return OK


def beside_head(connect_viewer: Callable[[TaskGroup], Awaitable[HeadClient]], address: tuple[str, int]) -> Dashboard:
    """Return the dashboard of a head of this process, which listens at `address`.

    Raises:
        ImportError: its packages are not installed.
        OSError: the address is in use.
    """
    from grainlike.dashboard import Dashboard, in_process

    dashboard = Dashboard(in_process(connect_viewer), address)
    _warn_if_open(dashboard)
    return dashboard


def _warn_if_open(dashboard: Dashboard) -> None:
    """Warn where other machines reach a dashboard: its pages and cookies are not encrypted."""
    if dashboard.beyond_loopback:
        words = (
            f"{dashboard.url} is reached from other machines, in plain HTTP: who reads the network reads its pages, "
            "and its cookies. An SSH tunnel to a dashboard on 127.0.0.1 is safe"
        )
        print(f"grainlike: {escaped(words)}", file=sys.stderr, flush=True)  # noqa: T201 - a command line speaks


def _failed(error: Exception, code: int) -> int:
    print(f"grainlike: {escaped(str(error))}", file=sys.stderr)  # noqa: T201 - a command line speaks
    return code


async def _print_links(link: Callable[[], str]) -> None:
    """Print another link whenever Enter is pressed."""
    while True:
        await anyio.wait_readable(sys.stdin.fileno())
        if not os.read(sys.stdin.fileno(), 1024):
            return
        print(f"dashboard: {link()}", flush=True)  # noqa: T201 - a command line speaks


def _has_desktop() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def _browser(link: Callable[[], str]) -> Iterator[None]:
    """Show the browser a link by way of a private file: the arguments of programs are there for all users to read."""
    with tempfile.TemporaryDirectory(prefix="grainlike-") as folder:
        page = Path(folder) / "open.html"
        page.touch(mode=0o600)
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={link()}"><a href="{link()}">Open</a>'
        )
        with suppress(webbrowser.Error):
            webbrowser.open(page.as_uri())
        yield
