"""The executor inside a job: the jobs that a job awaits are submitted over its runner's uplink."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.nested._job_executor import JobExecutor, leave_none

__all__ = [
    "JobExecutor",
    "leave_none",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "JobExecutor": "_job_executor",
            "leave_none": "_job_executor",
        },
    )
