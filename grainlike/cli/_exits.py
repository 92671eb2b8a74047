"""The exit codes of every command."""

__all__ = ["FAILED", "INTERRUPTED", "OK", "REFUSED", "USAGE"]

OK = 0
FAILED = 1
USAGE = 2
REFUSED = 3
"""No head, no worker, or refused; also an extra that is not installed."""
INTERRUPTED = 130
