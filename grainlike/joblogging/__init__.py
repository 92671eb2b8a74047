"""Records of `logging` that jobs make, on their way from a job's process to the handlers of its program.

A program's levels travel with its functions (`ProgramLevels`). In the job's process what these levels let pass becomes
plain data (`pack_record`); in the program it becomes a record again and goes to the logger of its name (`JobLogging`).
"""

from grainlike.joblogging._arrivals import JobLogging, log_entry
from grainlike.joblogging._entry import LogEntry, line_of, pack_dropped, pack_record, unpack
from grainlike.joblogging._gate import JOB_RATE, WORKER_RATE, Rate, RateGate
from grainlike.joblogging._levels import LogLevels, ProgramLevels, levels_of
from grainlike.joblogging._marking import marked_records

__all__ = [
    "JOB_RATE",
    "WORKER_RATE",
    "JobLogging",
    "LogEntry",
    "LogLevels",
    "ProgramLevels",
    "Rate",
    "RateGate",
    "levels_of",
    "line_of",
    "log_entry",
    "marked_records",
    "pack_dropped",
    "pack_record",
    "unpack",
]
