"""Calls of the tests of output of jobs, for processes that import nothing else of the tests."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading

import anyio

from grainlike import delayed

__all__ = [
    "begins_a_line",
    "closes_its_output",
    "coroutine_link",
    "fails",
    "fails_deeply",
    "fails_later",
    "inner",
    "link",
    "speaker",
    "talkative",
    "tiny",
]


@delayed
def talkative():
    print("printed", 1)
    os.write(1, b"by descriptor\n")
    subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
    print("to stderr", file=sys.stderr)
    logging.getLogger("any").warning("logged")
    thread = threading.Thread(target=print, args=("by a thread",))
    thread.start()
    sys.stdout.buffer.write(b"raw bytes\n")
    thread.join()  # what it writes after the end is not the job's, and else it may come on behind the next line
    print("no line end", end="")


@delayed
def fails(x, scale=1):
    print("tries", x)
    return inner(x, scale)


@delayed
async def fails_later(x, scale=1):
    print("tries", x)
    await anyio.lowlevel.checkpoint()
    return inner(x, scale)


def inner(x, scale):
    return scale / x


@delayed
def fails_deeply(values, note):
    error = ValueError("deep")
    for _ in range(40):
        error.add_note(note)
    raise error


@delayed
async def speaker(name):
    print("one", name)
    await asyncio.sleep(0)
    print("two", name, file=sys.stderr)
    await asyncio.gather(asyncio.to_thread(print, "three", name))
    print("four", name, file=sys.stderr)


def say_briefly(n):
    if n % 3 == 0:
        print("printed", n, end="")
    if n % 3 == 1:
        os.write(2, b"written %d" % n)


@delayed
def tiny(n):
    say_briefly(n)


@delayed
def tiny_too(n):
    say_briefly(n)


class _Loud:
    """Something that prints where it is loaded, as a module may that is imported there."""

    def __reduce__(self):
        return exec, ("import os\nprint('loaded', end='')\nos.write(2, b'loaded, too')",)


def says_when_loaded():
    """Return a function, pickled by value, that prints a line where it is loaded."""
    held = _Loud()

    def loud(n):
        return n, held

    loud.__module__ = "__main__"
    return delayed(loud)


@delayed
def ends_its_process():
    os._exit(1)


@delayed
def link(n):
    if n % 3 == 0:
        print("printed", n, end="")
    if n % 3 == 1:
        os.write(2, b"written %d" % n)
    return n + 1


@delayed
async def coroutine_link(n):
    print("printed", n)
    return n + 1


@delayed
def closes_its_output(way):
    print("closing")
    if way == "close":
        sys.stdout.close()
    else:
        sys.stdout.detach()
    return os.getpid()


@delayed
def begins_a_line(n):
    print(f"begun {n}", end="")
    return os.getpid()
