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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyte
from limits import LIMIT_S

__all__ = ["Ended", "Step", "at_terminal"]

Step = tuple[str | tuple[str, ...], str | Callable[[], object]]
"""Text that is to stand on the screen, or several, and what comes then: keys, or something to call."""

ROOT = Path(__file__).parents[2]


@dataclass
class Ended:
    """What a program left: its exit code, the screen, and all that it wrote to the terminal."""

    code: int
    lines: list[str]
    """Lines of the screen, without those that are empty."""
    written: str
    cursor_hidden: bool
    screens: list[list[str]] = field(default_factory=list)
    """Lines of the screen at each step."""

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
    steps: Sequence[Step] = (),
    environment: Mapping[str, str] = {},
    **streams: int,
) -> Ended:
    """Run a program whose standard streams are a terminal, but for those given; return when it has ended.

    It gets Ctrl-C once it has written `interrupt_at`. Each of `steps` comes after the one before, when its text stands
    on the screen: keys are typed, something else is called. A screen comes in pieces, and other parts of it may follow:
    a step whose screen is looked at waits for all the texts that it is to have.
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
            drawn, screens = pyte.Screen(columns, rows), []
            written = _read(screen.fileno(), program, interrupt_at.encode(), drawn, list(steps), screens)
        finally:
            program.kill()
    return Ended(program.returncode, _lines(drawn), written.decode(), drawn.cursor.hidden, screens)


def _lines(drawn: pyte.Screen) -> list[str]:
    return [line.rstrip() for line in drawn.display if line.strip()]


def _stands(texts: str | tuple[str, ...], drawn: pyte.Screen) -> bool:
    shown = "\n".join(drawn.display)
    return all(text in shown for text in ((texts,) if isinstance(texts, str) else texts))


def _read(
    screen: int,
    program: subprocess.Popen[bytes],
    interrupt_at: bytes,
    drawn: pyte.Screen,
    steps: list[Step],
    screens: list[list[str]],
) -> bytes:
    written = b""
    stream = pyte.ByteStream(drawn)
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
        stream.feed(data)
        while steps and _stands(steps[0][0], drawn):
            screens.append(_lines(drawn))
            _, does = steps.pop(0)
            if callable(does):
                does()
            else:
                os.write(screen, does.encode())
                break  # what stands there now is not the answer
        if interrupt_at and interrupt_at in written:
            interrupt_at = b""
            program.send_signal(signal.SIGINT)
    shown = "\n".join(_lines(drawn))
    raise TimeoutError(f"{sys.argv} wrote ...{written[-2000:]!r}, which is\n{shown}\nwaiting for {steps[:1]}")
