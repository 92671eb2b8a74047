"""Calls of the tests of records that jobs log, for processes that import nothing else of the tests."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

import msgspec
from limits import LIMIT_S

from grainlike import Cores, delayed
from grainlike.joblogging import LogEntry
from grainlike_worker.ipc._record_frames import CARRIER, send_record

__all__ = [
    "configure_and_log",
    "forge",
    "log_at",
    "log_at_all_levels",
    "log_badly",
    "log_in_children",
    "log_long",
    "log_when_cancelled",
    "log_without_end",
    "speak",
    "speak_alone",
    "speak_async",
    "speak_at_once",
    "speak_in_call",
    "speak_in_thread",
    "speak_in_worker_thread",
    "speak_nested",
    "wait_then_log",
    "warn",
    "warn_async",
    "warn_by_module",
    "warn_by_module_async",
    "write_rubbish",
]


def speak(word):
    logger = logging.getLogger("app.model")
    logger.debug("%s is not worth it", word)
    logger.info("%s %d", word, 7, extra={"loss": 0.25, "shape": (2, 3), "odd": {1}})
    try:
        raise ArithmeticError(word)
    except ArithmeticError:
        logger.exception("it failed", stack_info=True)
    return word, os.getpid(), time.time(), threading.current_thread().name


async def speak_async(word):
    await asyncio.sleep(0)
    return speak(word)


async def speak_at_once(word):
    return speak(word)


async def speak_nested(word):
    return await (delayed(speak) @ Cores(1))(word)


def speak_in_thread(word):
    told = []
    thread = threading.Thread(target=lambda: told.append(speak(word)), name="its own thread")
    thread.start()
    thread.join()
    return told[0]


async def speak_in_worker_thread(word):
    return await asyncio.to_thread(speak, word)


async def speak_in_call(word):
    return await delayed(speak)(word)


async def speak_alone(word):
    """For a process of its own."""
    return await delayed(speak)(word)


def log_at_all_levels():
    for name in ("app", "app.model", "other"):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            logging.getLogger(name).log(level, "%s", logging.getLevelName(level))
    return [logging.getLogger(name).getEffectiveLevel() for name in ("app", "app.model", "other")]


def wait_then_log(visit):
    visit("here")
    logging.getLogger("app.model").info("late")


def warn():
    logging.getLogger("app").warning("a warning")


async def warn_async():
    await asyncio.sleep(0)
    warn()


def configure_and_log(how, path):
    if how == "basicConfig":
        logging.basicConfig(level=logging.DEBUG, format="own: %(message)s")
    elif how == "file":
        logging.basicConfig(filename=path, level=logging.DEBUG)
    elif how == "handler":
        logging.getLogger("app").addHandler(logging.StreamHandler())
    elif how == "null":
        logging.getLogger("app").addHandler(logging.NullHandler())
    elif how == "null at the root":
        logging.getLogger().addHandler(logging.NullHandler())
    elif how == "own file":
        logging.getLogger("app").addHandler(logging.FileHandler(path))
    logging.getLogger("app.model").warning("said")


def warn_by_module():
    logging.warning("by the module")
    return os.getpid()


async def warn_by_module_async():
    return warn_by_module()


def log_without_end(count):
    logger = logging.getLogger("app.model")
    for number in range(count):
        logger.info("record %d", number)


def log_long():
    logging.getLogger("app.model").warning("x" * 1_000_000, extra={"long": "y" * 10_000})
    try:
        raise ValueError("z" * 1_000_000)
    except ValueError:
        logging.getLogger("app.model").exception("\udcff")


def log_in_children():
    children = [multiprocessing.get_context("fork").Process(target=log_without_end, args=(10,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return sorted(child.pid for child in children)


def log_badly():
    class Rude:
        def __str__(self):
            raise RuntimeError("no text")

    logger = logging.getLogger("app.model")
    logger.warning("%d", "no number")
    logger.warning("fine", extra={"rude": Rude(), "huge": 2**100, "job": "forged" if sys.argv is None else None})


def write_rubbish():
    """Write to all pipes that this process has, as nobody should."""
    for fd in range(3, 100):
        try:
            if str(Path(f"/proc/self/fd/{fd}").readlink()).startswith("pipe:"):
                os.write(fd, b"\xff" * 100)
        except OSError:
            pass
    logging.getLogger("app.model").warning("still")


def log_at(visit, first, last):
    for number in range(first, last):
        logging.getLogger("app.model").info("%d", number)
    visit("here")


def forge(job):
    """Send a record as that of another job."""
    fd = logging.root.parent.handlers[0]._fd
    record = msgspec.msgpack.encode(LogEntry(job, "forged", 1, "app.model", 50, "forged", time.time()))
    return send_record(fd, CARRIER.pack(job, 1) + record)


async def log_when_cancelled(visit):
    try:
        visit("here")
        await asyncio.sleep(LIMIT_S)
    finally:
        logging.getLogger("app.model").info("cancelled")
