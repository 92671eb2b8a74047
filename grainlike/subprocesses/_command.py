"""A command as a job: its exit code is what became of the job."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["run_command"]


def run_command(words: list[str], folder: str, variables: dict[str, str]) -> None:
    """Run a program in `folder` with `variables` added to the environment, and wait until it has ended.

    It runs in the process of a job: on its cores and devices, within its memory, writing to its output; its input is
    empty. What it leaves running is ended with the job, and when the job is cancelled, so is the program.

    Raises:
        subprocess.CalledProcessError: it ended with another exit code than 0, or by a signal (a negative code).
        FileNotFoundError, PermissionError: the folder or the program is not there, or it is not for us.
    """
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r} on this worker")
    process = subprocess.Popen(words, cwd=folder, env={**os.environ, **variables}, stdin=subprocess.DEVNULL)  # noqa: S603
    code = process.wait()
    if code:
        raise subprocess.CalledProcessError(code, words)
