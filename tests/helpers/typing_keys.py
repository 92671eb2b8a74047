"""Shells at a terminal in which keys are pressed: what the screen shows is waited for."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte
from limits import LIMIT_S
from waiting import until_blocking

__all__ = ["Typist", "at_shell"]

_LINES, _COLUMNS = 60, 160


class Typist:
    """The keys and the screen of a program at a pseudo-terminal."""

    def __init__(self, ours: int) -> None:
        self._ours = ours
        self._screen = pyte.Screen(_COLUMNS, _LINES)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        """Lines of the screen, without those that are empty."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def press(self, keys: str) -> None:
        """Press keys: `\t` is the one that completes."""
        os.write(self._ours, keys.encode())

    def until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Return the lines of the screen as soon as `holds` is true of them."""
        deadline = time.monotonic() + LIMIT_S
        while not holds(self.lines):
            ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("\n".join(self.lines))
            self._stream.feed(os.read(self._ours, 65536))
        return self.lines

    def clear(self) -> None:
        """Leave the line that is being typed, and forget the screen."""
        self.press("\x15")
        self.press("echo cle''ared\r")
        self.until(lambda lines: any(line.endswith("cleared") for line in lines))
        self._screen.reset()

    def back_at_keys(self) -> None:
        """Interrupt a shell that goes on with a line with the terminal back in the mode of commands.

        bash was seen to do so after a completion: its keys do nothing then, and an interrupt alone leaves the line.
        """
        if not self._reads_keys():
            self.press("\x03")
            until_blocking(self._reads_keys)

    def _reads_keys(self) -> bool:
        """Return True if the program takes each key as it is pressed, as shells do at their prompt."""
        return not termios.tcgetattr(self._ours)[3] & termios.ICANON


@contextmanager
def at_shell(argv: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[Typist]:
    """Run a shell at a terminal of its own, and kill it at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    program = subprocess.Popen(  # in no session of its own: `setsid` would have to fork, and be what is killed below
        ["setsid", "--ctty", *argv],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    try:
        yield Typist(ours)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
        os.close(ours)
