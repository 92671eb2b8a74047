"""Programs at a terminal: a pseudo-terminal whose other end draws what it is sent, as a real one does."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyte
from limits import LIMIT_S

__all__ = ["Ended", "at_terminal"]

ROOT = Path(__file__).parents[2]


@dataclass
class Ended:
    """What a program left: its exit code, the screen, and all that it wrote to the terminal."""

    code: int
    lines: list[str]
    """Lines of the screen, without those that are empty."""
    written: str
    cursor_hidden: bool

    def line(self, start: str) -> str:
        """Return the one line of the screen that begins so."""
        (found,) = [line for line in self.lines if line.startswith(start)]
        return found


def at_terminal(
    argv: list[str],
    *,
    columns: int = 100,
    rows: int = 30,
    interrupt_at: str = "",
    environment: Mapping[str, str] = {},
    **streams: int,
) -> Ended:
    """Run a program whose standard streams are a terminal, but for those given; return when it has ended.

    It gets Ctrl-C once it has written `interrupt_at`.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    paths = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
    program = subprocess.Popen(
        argv,
        **{"stdin": theirs, "stdout": theirs, "stderr": theirs, **streams},
        env={**os.environ, "PYTHONPATH": paths, "TERM": "xterm-256color", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    with program, os.fdopen(ours, "rb", buffering=0) as screen:
        try:
            written = _read(screen.fileno(), program, interrupt_at.encode())
        finally:
            program.kill()
    drawn = pyte.Screen(columns, rows)
    pyte.ByteStream(drawn).feed(written)
    lines = [line.rstrip() for line in drawn.display if line.strip()]
    return Ended(program.returncode, lines, written.decode(), drawn.cursor.hidden)


def _read(screen: int, program: subprocess.Popen[bytes], interrupt_at: bytes) -> bytes:
    written = b""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            data = os.read(screen, 65536)
        except OSError:  # as it is when nobody has the other end any more
            data = b""
        if not data:
            program.wait(LIMIT_S)
            return written
        written += data
        if interrupt_at and interrupt_at in written:
            interrupt_at = b""
            program.send_signal(signal.SIGINT)
    raise TimeoutError(f"{sys.argv} wrote {written!r}")
