"""The limit against hanging, for every test that waits for something real: a process, a socket, a loop.

A test that passes does not come near it on any machine, so no test depends on the speed of the one that it runs on.
"""

__all__ = ["LIMIT_S"]

LIMIT_S = 180.0
"""Seconds: ten times and more what the slowest of these waits took beside four busy processes on two cores."""
