"""Checked by `make check`, never run: each error is caught as the built-in that a caller would name."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from concurrent.futures import CancelledError

from grainlike import errors

value: type[ValueError] = errors.ResourceSpecError
graph: type[ValueError] = errors.GraphError
unknown: type[KeyError] = errors.UnknownNameError
serialization: type[TypeError] = errors.SerializationError
resource: type[RuntimeError] = errors.ResourceError
unsatisfiable: type[errors.ResourceError] = errors.UnsatisfiableError
timeout: type[TimeoutError] = errors.JobTimeoutError
memory: type[MemoryError] = errors.JobMemoryError
cancelled: type[CancelledError] = errors.JobCancelledError
journal: type[OSError] = errors.JournalError
settings: type[ValueError] = errors.SettingsError
launch: type[RuntimeError] = errors.LaunchError
block: type[RuntimeError] = errors.BlockEndedError
head: type[ConnectionError] = errors.HeadLostError
authentication: type[PermissionError] = errors.AuthenticationError
