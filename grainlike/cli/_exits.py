"""The exit codes of every command. Wrong usage is 2, and comes from the parser or from the worker's own program."""

__all__ = ["FAILED", "INTERRUPTED", "OK", "REFUSED", "UNREAD"]

OK = 0
FAILED = 1
REFUSED = 3
"""No head, no worker, or refused; also an extra that is not installed."""
INTERRUPTED = 130
UNREAD = 141
"""As a shell tells of a program that nobody read any more."""
