"""Fleet of a head: performs what the fleet scheduler decides about blocks of workers. It holds no rule of its own."""

from grainlike.head.fleet._driver import FleetDriver
from grainlike.head.fleet._records_file import RecordsFile

__all__ = ["FleetDriver", "RecordsFile"]
