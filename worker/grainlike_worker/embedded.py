"""The worker inside a user's process: the same daemon, with coroutines in the caller's event loop.

Loaded by name by the executor, and by nothing else. Plain functions and isolated jobs still get processes of their own.
"""

from grainlike_worker.daemon._daemon import serve_embedded as serve
from grainlike_worker.daemon._probe import offer_for, warn_of_logical

__all__ = ["offer_for", "serve", "warn_of_logical"]
