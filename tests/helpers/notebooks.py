"""A real Jupyter kernel in a process of its own, and what it sends for each cell."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from limits import LIMIT_S

__all__ = ["Cell", "Kernel", "kernel_environment", "running_kernel"]

ROOT = Path(__file__).parents[2]


def kernel_environment(home: Path) -> dict[str, str]:
    """Return the environment of a kernel whose files are all below `home`."""
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}:{ROOT / 'tests/helpers'}",
        "JUPYTER_RUNTIME_DIR": str(home),
        "IPYTHONDIR": str(home),
        "HOME": str(home),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


@dataclass
class Cell:
    """Cell that was sent to the kernel, and the outputs that the kernel says are its own."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False

    def written(self, stream: str = "stdout") -> str:
        """Return what the cell shows of a stream."""
        return "".join(content["text"] for content in self.contents("stream") if content["name"] == stream)

    @property
    def value(self) -> str | None:
        """Text of the cell's value; None where it has none."""
        return next((content["data"]["text/plain"] for content in self.contents("execute_result")), None)

    @property
    def error(self) -> str | None:
        """Name and text of the exception that ended the cell."""
        return next((f"{content['ename']}: {content['evalue']}" for content in self.contents("error")), None)

    @property
    def trace(self) -> list[str]:
        """Lines of the traceback that the cell shows."""
        return [
            line for content in self.contents("error") for text in content["traceback"] for line in text.split("\n")
        ]

    def contents(self, kind: str) -> list[dict[str, Any]]:
        """Return the contents of its messages of one type."""
        return [message["content"] for message in self.messages if message["msg_type"] == kind]


class Kernel:
    """Driver of one kernel. Cells run one after another, as in a notebook; tasks that they start go on."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self._client = manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=LIMIT_S)
        self._cells: dict[str, Cell] = {}

    @property
    def pid(self) -> int:
        """Process of the kernel."""
        return int(self.manager.provisioner.pid)

    def send(self, code: str) -> Cell:
        """Send a cell, and return without waiting for it."""
        cell = self._cells[self._client.execute(code)] = Cell()
        return cell

    def run(self, code: str) -> Cell:
        """Run a cell to its end, and fail where it fails."""
        cell = self.send(code)
        self.until(lambda: cell.ended)
        assert cell.error is None, "\n".join(cell.trace)
        return cell

    @property
    def cells(self) -> list[Cell]:
        """All cells that were sent, in order."""
        return list(self._cells.values())

    def until(self, condition: Any) -> None:
        """Take what the kernel sends until `condition()` is true."""
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            message = self._client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            cell = self._cells.get(message["parent_header"].get("msg_id"))
            if cell is None:
                continue
            cell.messages.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                cell.ended = True

    def interrupt(self) -> None:
        """Interrupt the cell that runs, as the button of a notebook does."""
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        """Restart the kernel, as the button of a notebook does."""
        self.manager.restart_kernel()
        self._client.wait_for_ready(timeout=LIMIT_S)

    def close(self) -> None:
        """Let go of the channels."""
        self._client.stop_channels()


@contextmanager
def running_kernel(home: Path) -> Iterator[Kernel]:
    """Context manager of a kernel, which is killed at the end if it still lives."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=kernel_environment(home), cwd=str(home))
    kernel = None
    try:
        kernel = Kernel(manager)
        yield kernel
    finally:
        if kernel is not None:
            kernel.close()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
