"""A process that is out of file descriptors."""

import os
import resource
from contextlib import contextmanager

__all__ = ["without_descriptors"]


@contextmanager
def without_descriptors():
    """Context manager: this process may open no more files."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (now, most))
