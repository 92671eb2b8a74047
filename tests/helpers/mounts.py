"""Mounts of one's own: programs that see another file system than the rest of this machine."""

from __future__ import annotations

import subprocess
from functools import cache

__all__ = ["SMALL_SHARED_MEMORY", "may_mount", "with_mount"]

SMALL_SHARED_MEMORY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x20000) == 0 and libc.mount(b"none", b"/", None, 0x44000, None) == 0, ctypes.get_errno()
assert libc.mount(b"none", b"/dev/shm", b"tmpfs", 6, b"size=64m") == 0, ctypes.get_errno()
"""
"""Code by which a process of root's, and its children, have 64 MB of shared memory of their own, as in a container."""


@cache
def may_mount() -> bool:
    """Return True if this user may have a name space with mounts of its own."""
    command = with_mount("-t tmpfs none /mnt", "true")
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def with_mount(mount: str, *command: str) -> list[str]:
    """Return a command that runs another one where something is mounted.

    >>> with_mount("-t tmpfs none /mnt", "ls", "/mnt")[-2:]
    ['ls', '/mnt']
    """
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", f'mount {mount} && exec "$@"', "sh", *command]
