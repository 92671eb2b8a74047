"""Async-native delayed objects on exact, enforced resources.

The front door: it re-exports and holds no logic. Importing it binds what costs nothing; the rest loads when first used.
"""

from grainlike._version import __version__
from grainlike.errors import (
    AuthenticationError,
    GrainlikeError,
    GraphError,
    HeadLostError,
    JobCancelledError,
    JobMemoryError,
    JobTimeoutError,
    ProtocolError,
    RemoteError,
    ResourceError,
    ResourceSpecError,
    SerializationError,
    UnsatisfiableError,
    VersionMismatchError,
    WorkerLostError,
)

__all__ = [
    "AuthenticationError",
    "GrainlikeError",
    "GraphError",
    "HeadLostError",
    "JobCancelledError",
    "JobMemoryError",
    "JobTimeoutError",
    "ProtocolError",
    "RemoteError",
    "ResourceError",
    "ResourceSpecError",
    "SerializationError",
    "UnsatisfiableError",
    "VersionMismatchError",
    "WorkerLostError",
    "__version__",
]
