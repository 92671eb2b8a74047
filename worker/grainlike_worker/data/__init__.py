"""Data server: a process beside a worker's daemon that sends replicas to other workers, and pulls replicas from them.

No heartbeat of the daemon waits for bytes or for a disk, because they are moved here. `_serving` answers other data
servers, `_pulling` asks them, and `_part_files` writes what they send. The data server unpickles nothing and knows no
job. If it is killed, replicas stay, because they are files; its daemon sets up the next one.
"""
