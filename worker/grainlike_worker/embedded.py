"""The worker inside a user's process: the same daemon, with coroutines in the caller's event loop.

Loaded by name by the executor, and by nothing else. Plain functions and isolated jobs still get processes of their own.
"""

from grainlike_worker.daemon._daemon import serve_embedded as serve
from grainlike_worker.daemon._probe import offer_for, warn_of_logical
from grainlike_worker.runner.loop._output import hooked_streams
from grainlike_worker.store._limits import StoreOptions, store_limits

__all__ = ["StoreOptions", "hooked_streams", "offer_for", "serve", "store_limits", "warn_of_logical"]
