"""A module that is edited while a worker lives: its processes go on with the old code, and say so once."""

import asyncio
import importlib
import sys

import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, Executor, delayed

pytestmark = pytest.mark.asyncio

OLD = "def plain():\n    return 'old'\n\n\nasync def waits():\n    return 'old'\n"


@pytest.mark.parametrize("name", ["plain", "waits"])
async def test_the_log_of_a_job_says_that_its_module_was_edited(tmp_path, monkeypatch, start_worker, name):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited_meanwhile.py"
    file.write_text(OLD)
    module = importlib.import_module("edited_meanwhile")
    try:
        async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
            start_worker(executor.address, resources="cores=[0]")
            call = delayed(getattr(module, name)) @ Cores(1)

            async def said():
                r_ = call()
                assert await r_ == "old"
                return [str(line) async for line in executor.logs(r_)]

            assert await said() == []
            file.write_text(OLD.replace("old", "a new one"))
            [line] = await until(said)
            assert line.startswith(f"grainlike: edited_meanwhile ({file}) was edited since this process of worker n1")
            assert await said() == []
    finally:
        del sys.modules["edited_meanwhile"]
