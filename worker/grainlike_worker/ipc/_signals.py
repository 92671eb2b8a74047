"""Signals and exit codes that a daemon and its runners agree on."""

import os
import signal

__all__ = ["FLUSH_SIGNAL", "LATE_S", "NOTICES", "TERMINATED", "WORD_S", "in_batch_job"]

FLUSH_SIGNAL = signal.SIGURG
"""Asks a runner for the outcomes that wait for the running job to end."""

TERMINATED = 128 + signal.SIGTERM
"""The exit code of a runner that ended because it was told to, as a shell would show it."""

NOTICES = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Sent by batch systems, besides SIGTERM, to every process of a job that shall end: they are for the daemon alone."""

WORD_S = 2.0
"""Seconds for which a job that failed after a signal to all processes of a batch job waits for the daemon's word: that
has been signalled, too, and answers at once.
"""

LATE_S = 0.25
"""Seconds by which the signal to a runner may come after that to a program that a job has started: batch systems begin
with the children. For so long a job waits that fails when such a program has ended.
"""

_JOB_IDS = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "SGE_TASK_ID")


def in_batch_job() -> bool:
    """Return True if this process is part of a batch job: a SIGTERM may then be meant for all of its processes."""
    return any(name in os.environ for name in _JOB_IDS)
