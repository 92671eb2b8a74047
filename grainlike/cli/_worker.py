"""`worker start`: the worker's own program, loaded by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["start_worker"]


def start_worker(
    *,
    head: str | None,
    resources: str | None,
    name: str | None,
    log_level: str,
    context: str | None,
    echo_output: bool,
    keep_scratch: str | None,
    insecure: bool,
    wait: bool,
    patience: float,
    idle: str | None,
) -> int:
    """Serve until the head closes or a signal comes; the exit code is the worker's own."""
    room: Any = import_module("grainlike_worker.__main__")
    code: int = room.serve(
        head=head,
        resources=resources,
        name=name,
        log_level=log_level,
        context=context,
        echo_output=echo_output,
        keep_scratch=keep_scratch,
        insecure=insecure,
        wait=wait,
        patience=patience,
        idle=idle,
    )
    return code
