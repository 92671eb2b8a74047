"""Fleet of a head: performs what the fleet scheduler decides about blocks of workers. It holds no rule of its own."""

from grainlike.head.fleet._books_file import BooksFile
from grainlike.head.fleet._driver import FleetDriver

__all__ = ["BooksFile", "FleetDriver"]
