"""Server of the fake batch systems: takes jobs, starts them on its nodes as they fit, and ends them.

`python fake_batchd.py STATE` reads STATE/site.json and answers on STATE/socket, a line of JSON for each. What differs
between the systems is in `fake_pbs_jobs.py` and `fake_lsf_jobs.py`: the environment of a job, its command, the signals
that end it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fake_lsf_jobs
import fake_pbs_jobs
from fake_jobs import Chunk, Job, Node, enter_node, place_chunks, release, signal_sessions

LOOK_S = 0.05


class Server:
    """Jobs, nodes and queues of one system."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.site: dict[str, Any] = json.loads((state / "site.json").read_text())
        self.jobs: dict[int, Job] = {}
        self._system = fake_lsf_jobs if self.site["system"] == "lsf" else fake_pbs_jobs
        self._nodes = [
            Node(name, node["cores"], node["memory_mb"], list(range(node.get("gpus", 0))))
            for name, node in self.site["nodes"].items()
        ]
        self._whole = [(node.name, Chunk(node.cores, node.memory_mb, len(node.gpus))) for node in self._nodes]
        self._changed = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Answer until this process is told to end; then end all jobs."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with await asyncio.start_unix_server(self._answer, self.state / "socket"):
            (self.state / "ready").touch()
            scheduling = asyncio.create_task(self._schedule())
            await stop.wait()
            scheduling.cancel()
        for job in self.jobs.values():
            signal_sessions(job.sessions, signal.SIGKILL)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = json.loads(await reader.readline())
            answer = await getattr(self, f"do_{asked.pop('do')}")(**asked)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass
        finally:
            writer.close()

    # --- what commands ask ---------------------------------------------------------------------------------------

    async def do_submit(self, job: dict[str, Any], owner: str) -> dict[str, Any]:
        """Take a job, or say why not."""
        queue = self.site["queues"].get(job["queue"] or self.site["default_queue"])
        if queue is None:
            return {"refused": "queue"}
        if not queue.get("open", True):
            return {"refused": "closed"}
        longest = queue.get("walltime_s")
        if longest is not None and (job["limit_s"] or 0) > longest:
            return {"refused": "limit"}
        live = [known for known in self.jobs.values() if known.state != "ended"]
        if len(live) >= queue.get("jobs", sys.maxsize):
            return {"refused": "jobs"}
        if self.site["system"] == "lsf" and not self._ever(job):
            return {"refused": "processors"}
        number = self.site.get("first", 1) + len(self.jobs)
        job["queue"] = job["queue"] or self.site["default_queue"]
        limit_s = job["limit_s"] if job["limit_s"] is not None else longest
        held = "held" if job["hold"] else "queued"
        self.jobs[number] = Job(number, job, owner, time.time(), held, limit_s=limit_s)
        self._changed.set()
        return {"number": number}

    def _ever(self, job: dict[str, Any]) -> bool:
        """Return True if the empty system could run it."""
        chunks = [Chunk(**chunk) for chunk in job["chunks"]]
        hosts = [whole for _, whole in self._whole]
        fitting = [
            [c.cores <= h.cores and c.memory_mb <= h.memory_mb and c.gpus <= h.gpus for h in hosts] for c in chunks
        ]
        return all(any(row) for row in fitting) and (not job["scatter"] or len(chunks) <= len(hosts))

    async def do_list(self) -> list[dict[str, Any]]:
        """Return all jobs; those that have ended until they are forgotten."""
        oldest = time.time() - self.site["history_s"]
        return [job.told() for job in self.jobs.values() if job.state != "ended" or job.ended > oldest]

    async def do_end(self, number: int) -> dict[str, Any]:
        """Take a job out of the queue, or end its processes."""
        job = self.jobs.get(number)
        if job is None or (job.state == "ended" and job.ended <= time.time() - self.site["history_s"]):
            return {"refused": "unknown"}
        if job.state == "ended":
            return {"refused": "ended"}
        if job.state in ("queued", "held"):
            job.state, job.ended, job.why = "ended", time.time(), "owner"
        elif not job.why:
            job.why = "owner"
            self._also(self._system.end_job(job, self.site))
        return {}

    async def do_alter(self, number: int, limit_s: int) -> dict[str, Any]:
        """Give a job another limit of time."""
        if number not in self.jobs or self.jobs[number].state == "ended":
            return {"refused": "unknown"}
        self.jobs[number].limit_s = limit_s
        return {}

    async def do_spawn(self, number: int, hosts: list[int], argv: list[str]) -> dict[str, Any]:
        """Start a program on hosts of a job, given by their place in it, with the job's environment and output."""
        job = self.jobs[number]
        if job.state != "running":
            return {"refused": "ended"}
        pids = [self._start(job, place, argv, task=True).pid for place in hosts]
        return {"pids": pids}

    async def do_adopt(self, number: int, pid: int) -> dict[str, Any]:
        """Count a session among the job's, which a command of its own has started on one of its hosts."""
        self.jobs[number].sessions.append(pid)
        return {}

    async def do_tasks(self, number: int) -> dict[str, Any]:
        """Return the exit codes of what was spawned, by process; those that run are not there."""
        return {str(pid): code for pid, code in self.jobs[number].tasks.items()}

    # --- jobs ----------------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        while True:
            self._changed.clear()
            for job in self.jobs.values():
                if job.state == "queued" and place_chunks(job, self._nodes):
                    job.state, job.started = "running", time.time()
                    self._also(self._run(job))
            await self._changed.wait()

    def _also(self, what: Any) -> None:
        task = asyncio.create_task(what)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, job: Job) -> None:
        script = self.state / "spool" / f"{job.number}.SC"
        script.parent.mkdir(exist_ok=True)
        script.write_text(job.asked["script"])
        script.chmod(0o700)
        process = self._start(job, 0, self._system.command(job, script))
        watching = asyncio.create_task(self._watch_limit(job))
        job.code = await asyncio.to_thread(process.wait)
        watching.cancel()
        while signal_sessions(job.sessions, signal.SIGKILL):  # noqa: ASYNC110 - what the script has left behind
            await asyncio.sleep(LOOK_S)
        job.state, job.ended = "ended", time.time()
        release(job, self._nodes)
        self._changed.set()

    async def _watch_limit(self, job: Job) -> None:
        while job.limit_s is None or time.time() < job.started + job.limit_s:  # noqa: ASYNC110 - it may be altered
            await asyncio.sleep(LOOK_S)
        job.why = job.why or "limit"
        await self._system.end_at_limit(job, self.site)

    def _start(self, job: Job, place: int, argv: list[str], *, task: bool = False) -> subprocess.Popen[bytes]:
        host = job.places[place].host
        environment = self._system.environment(job, place, self.state, task=task)
        output = Path(job.asked["output"] or os.devnull)
        directory = self._system.directory(job, task=task)
        with output.open("ab") as out:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                cwd=directory if Path(directory).is_dir() else "/",
                start_new_session=True,
                preexec_fn=lambda: enter_node(host),
            )
        job.sessions.append(process.pid)
        if task:
            self._also(self._wait_for_task(job, process))
        return process

    async def _wait_for_task(self, job: Job, process: subprocess.Popen[bytes]) -> None:
        job.tasks[process.pid] = await asyncio.to_thread(process.wait)


if __name__ == "__main__":
    asyncio.run(Server(Path(sys.argv[1])).serve())
