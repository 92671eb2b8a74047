"""The data server: a process beside a worker's daemon that sends replicas to other workers, and gets theirs.

No heartbeat waits for bytes, nor for a disk. Its parts: `_serving` answers other data servers, `_pulling` asks them,
`_part_files` writes what comes. It unpickles nothing, knows no job, and has no state that its daemon could not tell to
the next one: when it is killed, replicas stay, as they are files.
"""
