"""A module that is edited while a worker lives: a program that starts later gets the new code, another the old."""

import asyncio
import importlib
import logging
import sys

import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, Executor, delayed

pytestmark = pytest.mark.asyncio

OLD = "def plain():\n    return 'old'\n\n\nasync def waits():\n    return 'old'\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "edited_meanwhile.py"
    for name in ("edited_meanwhile", "edited_user"):
        sys.modules.pop(name, None)


def _imported(name="edited_meanwhile"):
    """Import a module as a program does that begins now."""
    importlib.invalidate_caches()
    for known in ("edited_meanwhile", "edited_user"):
        sys.modules.pop(known, None)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode  # it would count as new by its second of time
    try:
        return importlib.import_module(name)
    finally:
        sys.dont_write_bytecode = before


async def test_new_functions_of_a_program_that_goes_on_run_with_the_code_that_it_began_with(file, start_worker):
    file.write_text(OLD)
    module = _imported()

    def one(number):
        @delayed
        def call():
            return module.plain(), number

        return (call @ Cores(1))()

    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, resources="cores=[0]")
        assert await one(1) == ("old", 1)
        file.write_text("def plain(:")  # saved half-way: a process that begins now could not import it
        assert await one(2) == ("old", 2)


@pytest.mark.parametrize("name", ["plain", "waits"])
async def test_a_program_that_goes_on_hears_that_its_module_was_edited(file, start_worker, caplog, name):
    file.write_text(OLD)
    module = _imported()
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
        words = f"edited_meanwhile ({file}) was edited since this process of worker n1"
        assert words in line, "its own log has it, too"
        assert await said() == []
        records = [record for record in caplog.records if record.name == "grainlike"]
        assert [(record.levelno, record.getMessage().startswith(words)) for record in records] == [
            (logging.WARNING, True)
        ]


@pytest.mark.parametrize("through", ["edited_meanwhile", "edited_user"])
async def test_a_program_that_starts_after_an_edit_runs_the_new_code(file, start_worker, through):
    file.with_name("edited_user.py").write_text(
        "from edited_meanwhile import plain as inner\n\n\ndef plain():\n    return inner()\n"
    )
    file.write_text(OLD)
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, resources="cores=[0]")
        before = delayed(_imported(through).plain) @ Cores(1)
        assert await before() == "old"
        file.write_text(OLD.replace("old", "a new one"))
        assert await (delayed(_imported(through).plain) @ Cores(1))() == "a new one"


async def test_after_a_reload_of_what_they_use_functions_that_are_made_then_run_the_new_code(file, start_worker):
    file.write_text(OLD)
    module = _imported()

    def made():
        def call():
            return module.plain()

        return delayed(call) @ Cores(1)

    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, resources="cores=[0]")
        before = made()
        assert await before() == "old"
        file.write_text(OLD.replace("old", "a new one"))
        importlib.reload(module)
        assert await before() == "old", "it was sent with the versions of that time"
        assert await made()() == "a new one"


async def test_a_coroutine_of_a_later_program_finds_the_old_code_and_each_program_hears_so(file, start_worker, caplog):
    file.write_text(OLD)
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, resources="cores=[0]")
        assert await (delayed(_imported().waits) @ Cores(1))() == "old"
        for text in ("a new one", "a newer one"):
            caplog.clear()
            file.write_text(OLD.replace("old", text))
            assert await (delayed(_imported().waits) @ Cores(1))() == "old", "others may use its process now"
            assert [f"edited_meanwhile ({file}) was edited" in record.getMessage() for record in caplog.records] == [
                True
            ]
