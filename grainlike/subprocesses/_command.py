"""A command as a job: its exit code is what became of the job."""

from __future__ import annotations

import os
import selectors
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

__all__ = ["run_command"]

_KEPT = 4000
"""Bytes of the end of each stream that are kept for the error of a program that fails."""

_READ = 64 * 1024

_LAST_READS = 32
"""Most reads after the program has ended: more than a pipe holds. What it left running may write without end."""


def run_command(words: list[str], folder: str, variables: dict[str, str]) -> None:
    """Run a program in `folder` with `variables` added to the environment, and wait until it has ended.

    It runs in the process of a job: on its cores and devices, within its memory, writing to its output; its input is
    empty. The error has the end of what it wrote. What it leaves running is ended with the job, and when the job is
    cancelled, so is the program.

    Raises:
        subprocess.CalledProcessError: it ended with another exit code than 0, or by a signal (a negative code).
        FileNotFoundError, PermissionError: the folder or the program is not there, or it is not for us.
    """
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r} on this worker")
    with _Relay() as relay:
        process = subprocess.Popen(  # noqa: S603
            words,
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=relay.output,
            stderr=relay.errors,
        )
        code = process.wait()
    if code:
        raise subprocess.CalledProcessError(code, words, relay.last[1], relay.last[2])


class _Relay:
    """Context manager: pipes for the output and the errors of a program, which go on as those of this process.

    At the end all that was written has gone on, and what others would still write has nowhere to go.
    """

    def __init__(self) -> None:
        self.last: dict[int, bytes] = {1: b"", 2: b""}
        """The end of what went on, by descriptor."""
        self._open = ExitStack()

    def __enter__(self) -> Self:
        out, self.output = self._pipe()
        err, self.errors = self._pipe()
        self._sources = {out: 1, err: 2}
        self._halted, self._halt = self._pipe()
        # One for both, so that a line of one stream goes on beside what the other had when it was written.
        self._thread = Thread(target=self._pass_all, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.write(self._halt, b".")
        self._thread.join()
        self._open.close()

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        for end in ends:
            self._open.callback(os.close, end)
        return ends

    def _pass_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            for source in (*self._sources, self._halted):
                selector.register(source, selectors.EVENT_READ)
            left = _LAST_READS
            while left:
                ready = {key.fd for key, _ in selector.select()}
                if ready == {self._halted}:
                    return
                left -= self._halted in ready
                for source, target in self._sources.items():
                    if source in ready:
                        self._pass_on(os.read(source, _READ), target)

    def _pass_on(self, data: bytes, target: int) -> None:
        self.last[target] = (self.last[target] + data)[-_KEPT:]
        with suppress(OSError):  # nobody reads it; the program is not to wait for that
            while data:
                data = data[os.write(target, data) :]
