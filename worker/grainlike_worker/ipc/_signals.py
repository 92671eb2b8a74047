"""Signals and exit codes that a daemon and its runners agree on."""

import signal

__all__ = ["FLUSH_SIGNAL", "TERMINATED"]

FLUSH_SIGNAL = signal.SIGURG
"""Asks a runner for the outcomes that wait for the running job to end."""

TERMINATED = 128 + signal.SIGTERM
"""The exit code of a runner that ended because it was told to, as a shell would show it."""
