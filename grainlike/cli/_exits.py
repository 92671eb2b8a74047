"""The exit codes of every command. Wrong usage is 2, and comes from the parser or from the worker's own program."""

import errno

__all__ = ["FAILED", "INTERRUPTED", "NO_HEAD", "OK", "REFUSED", "UNREAD", "USAGE", "epilog", "is_of_output"]

OK = 0
FAILED = 1
USAGE = 2
REFUSED = 3
"""Exit code without a head or worker, or when refused; also for an extra that is not installed."""
INTERRUPTED = 130
UNREAD = 141
"""Exit code as of a shell for a program whose output is read no more."""


def is_of_output(error: BaseException) -> bool:
    """Return True if what is printed cannot be written: no file was named, and the disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename is None


NO_HEAD = "no head there, or it refused"
"""Meaning of `REFUSED` for commands that need a head."""


def epilog(
    examples: str, *, ok: str = "success", failed: str = "", usage: str = "wrong usage", refused: str = ""
) -> str:
    """Return what follows the options in the help of a command: examples, and the meaning of its exit codes; an empty
    one is not used.
    """
    meanings = {OK: ok, FAILED: failed, USAGE: usage, REFUSED: refused}
    codes = "\n".join(f"{code} {meaning}" for code, meaning in meanings.items() if meaning)
    return f"[bold]Examples[/bold]\n\n{examples.strip()}\n\n[bold]Exit codes[/bold]\n\n{codes}\n"
