"""Functions that print: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import sys

from grainlike import delayed

__all__ = ["say", "say_plainly", "say_twice"]


async def say(word: str) -> str:
    return say_plainly(word)


def say_plainly(word: str) -> str:
    print(f"{word} printed")
    print(f"{word} complained", file=sys.stderr)
    return word


async def say_twice(word: str) -> str:
    await delayed(say)("nested")
    return await say(word)
