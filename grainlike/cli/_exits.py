"""The exit codes of every command. Wrong usage is 2, and comes from the parser or from the worker's own program."""

__all__ = ["FAILED", "INTERRUPTED", "OK", "REFUSED", "UNREAD"]

OK = 0
FAILED = 1
REFUSED = 3
"""Exit code without a head or worker, or when refused; also for an extra that is not installed."""
INTERRUPTED = 130
UNREAD = 141
"""Exit code as of a shell for a program whose output is read no more."""
