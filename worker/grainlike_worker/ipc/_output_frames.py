"""Format of the pipe through which a runner that many jobs share says whose output it is."""

import struct

__all__ = ["HEADER"]

HEADER = struct.Struct("<BqiI")
"""In front of each piece in the third pipe: stream, job, attempt, size."""
