"""Bugs made by hand in the schedulers, each as a change of their source, and the suite that must go red for it.

A suite that stays green whatever is broken proves nothing, so this table is to the tests what the tests are to the
code. `catch_bugs.py` plants each in a copy of the sources and runs the suite; a bug that is not seen is a hole in the
suite. Where a change of the schedulers touches a line below, the bug moves along: it must still be the same mistake.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BUGS", "HEAD", "NODE", "REPOSITORY", "SUITES", "Bug", "Change", "plant", "planted_source"]

REPOSITORY = Path(__file__).resolve().parents[2]

HEAD, NODE, TALK = "head's scheduler", "node's scheduler", "talk of the two"

SUITES = {
    "judge": "tests/simulation/test_worlds.py::test_every_promise_is_kept",
    "nested": "tests/simulation/test_nested_worlds.py::test_every_promise_is_kept",
    "gangs": "tests/simulation/test_gang_worlds.py::test_every_promise_is_kept_and_the_worlds_see_every_path",
    "orphans": "tests/simulation/test_head_crash.py::test_every_promise_is_kept",
    "laws": "tests/simulation/test_worlds.py::test_every_promise_is_kept",
    "waits": "tests/simulation/test_policy.py",
    "replay": "tests/simulation/test_replay.py",
    "machine": "tests/machines/test_schedulers_machine.py::TestMinds",
    "lenders": "tests/machines/test_schedulers_machine.py::TestLenders",
}
"""What to run. In those of `JUDGED` the judge is alone: the schedulers' own laws are not looked at."""

JUDGED = ("judge", "nested", "gangs", "orphans", "values")


@dataclass(frozen=True)
class Change:
    """In a module of `package`, `old` becomes `new`. It is there once."""

    module: str
    old: str
    new: str
    package: str = "grainlike"


@dataclass(frozen=True)
class Bug:
    """A mistake: what it is called, where it is, what it breaks, who must see it."""

    name: str
    room: str
    breaks: str
    suite: str
    changes: tuple[Change, ...]


WITHOUT_LAWS = Change("_trial.py", "            scheduler.check()\n", "", "simtest")


def planted_source(change: Change) -> str:
    """The module as the change leaves it.

    Raises:
        LookupError: the text to change is not there exactly once.
    """
    text = (REPOSITORY / change.package / change.module).read_text()
    if text.count(change.old) != 1:
        raise LookupError(f"{change.module} has this {text.count(change.old)} times, not once:\n{change.old}")
    return text.replace(change.old, change.new)


def plant(bug: Bug | None, tree: Path) -> None:
    """Lay out what the suites need under `tree`, with the bug in it; `None` is none."""
    skip = shutil.ignore_patterns("__pycache__")
    for part in ("grainlike", "worker", "simtest", "tests"):
        shutil.copytree(REPOSITORY / part, tree / part, ignore=skip)
    shutil.copy(REPOSITORY / "pyproject.toml", tree)
    changes: Sequence[Change] = () if bug is None else bug.changes
    if bug is not None and bug.suite in JUDGED:
        changes = (*changes, WITHOUT_LAWS)
    for change in changes:
        path = tree / change.package / change.module
        text = path.read_text()
        assert text.count(change.old) == 1, f"{change.module} has this {text.count(change.old)} times:\n{change.old}"
        path.write_text(text.replace(change.old, change.new))


_HEAD, _WORKERS, _PLANNING = "scheduler/_head.py", "scheduler/_workers.py", "scheduler/planning/_planner.py"
_RESERVING, _AHEAD = "scheduler/planning/_reservations.py", "scheduler/planning/_ahead.py"
_RATIONS, _RESERVATION, _SHARES = (
    "scheduler/planning/_start_limits.py",
    "scheduler/planning/_reservation.py",
    "scheduler/planning/_shares.py",
)
_ATTEMPTS, _MOVES, _RECORDS = "scheduler/_attempts.py", "scheduler/_state.py", "scheduler/_records.py"
_PATIENCE, _INDEX = "scheduler/planning/_patience.py", "scheduler/planning/_class_index.py"
_WAITING, _CATALOGUE = "scheduler/planning/_waiting.py", "scheduler/_catalogue.py"
_CANDIDATES, _NODE = "scheduler/planning/_candidates.py", "scheduler/node/_scheduler.py"
_RUNNERS, _WORKER_EVENTS = "scheduler/node/_runners.py", "scheduler/_worker_events.py"
_HOLDS = "scheduler/node/_holds.py"
_DEADLOCK, _LENDING = "scheduler/_deadlock.py", "scheduler/node/_lending.py"


def _bug(name: str, room: str, breaks: str, suite: str, *changes: tuple[str, str, str]) -> Bug:
    return Bug(name, room, breaks, suite, tuple(Change(*change) for change in changes))


_TRANSCRIPT, _BACKOFF = "wire/_resend_buffer.py", "scheduler/_backoff.py"

BUGS: tuple[Bug, ...] = (
    # --- memory of devices that idle processes hold ------------------------------------------------------------------
    _bug(
        "begin_before_others_are_gone",
        NODE,
        "a job begins on a device while processes that were told to end still hold its memory",
        "machine",
        (
            _RUNNERS,
            "        holders = [*self._idle, *self._leaving.values()]\n",
            "        holders = self._idle\n",
        ),
    ),
    _bug(
        "keep_the_process_of_other_devices",
        NODE,
        "a job on a device begins in a process that holds memory of others, or another share of it",
        "judge",
        (_RUNNERS, "        return bool(before) and before != runner.devices\n", "        return False\n"),
    ),
    _bug(
        "replace_where_it_is_what_holds_more",
        NODE,
        "a job on a part of the devices that a process had begins in its successor, and others on the rest before that",
        "judge",
        (_RUNNERS, "        return within and any(self._held", "        return any(self._held"),
    ),
    _bug(
        "give_away_the_process_of_a_device",
        NODE,
        "a job without devices gets a process that has a context of one",
        "judge",
        (
            _RUNNERS,
            """        if runner.devices:
            self._device_memory.came_free(runner)
        elif runner.kind == "own":
""",
            """        if runner.kind == "own":
""",
        ),
    ),
    _bug(
        "forget_one_share_too_many",
        NODE,
        "idle processes with shares of a device are not ended though they and what is granted exceed it",
        "judge",
        (
            _RUNNERS,
            "                if self._held(one, self._idle, but=spared) <= left:\n",
            "                if self._held(one, self._idle, but=spared) <= left + runner.devices[one]:\n",
        ),
    ),
    _bug(
        "hold_slots_whose_memory_is_not_free",
        NODE,
        "slots are held for a gang while idle processes hold the memory of their devices",
        "gangs",
        (_HOLDS, "not None and hold.cls.devices and not ", "not None and hold.cls is None and not "),
    ),
    # --- links that break --------------------------------------------------------------------------------------------
    _bug(
        "send_all_again_that_is_kept",
        TALK,
        "after a break, what had come and was not acknowledged is sent a second time",
        "judge",
        (_TRANSCRIPT, "        self.acknowledged(count)\n        return [", "        return ["),
    ),
    _bug(
        "forget_what_is_not_acknowledged",
        TALK,
        "what was sent a while ago is not kept, whether or not it has come",
        "judge",
        (_TRANSCRIPT, "return self.sent_in_all - len(self._kept) <= count <= ", "return count <= "),
        (_TRANSCRIPT, "len(self._kept) > MOST_COUNT", "len(self._kept) > 2"),
        (_TRANSCRIPT, "for _ in range(count - first):", "for _ in range(min(count - first, len(self._kept))):"),
    ),
    _bug(
        "give_each_job_all_the_memory_of_its_lease",
        HEAD,
        "jobs that share a lease are told the rounded amount of memory, not what they asked for",
        "judge",
        (_AHEAD, "tuple([job.memory for job in jobs]) if", "() if"),
    ),
    _bug(
        "round_memory_far_up",
        HEAD,
        "a lease has twice the memory that its jobs asked for",
        "judge",
        ("resources/_rounding.py", "_STEPS_BITS = 4", "_STEPS_BITS = 0"),
    ),
    _bug(
        "keep_no_quarantine",
        HEAD,
        "a worker that can start no process gets the next job at once",
        "judge",
        (_ATTEMPTS, 'worker.shut_for("quarantine", why)', "pass"),
    ),
    _bug(
        "try_again_at_once",
        HEAD,
        "a job that was to wait before its next attempt does not",
        "judge",
        (_BACKOFF, "while self._heap and (self._heap[0][0] <= now or", "while self._heap and (now > 0.0 or"),
        (_BACKOFF, "if job is not None and job.again_at <= now:", "if job is not None:"),
    ),
    _bug(
        "trust_the_silent",
        HEAD,
        "a worker that is not heard gets jobs as ever",
        "judge",
        (_WORKERS, "return not self.shut and self.has_room(shape)", "return self.has_room(shape)"),
    ),
    _bug(
        "keep_a_place_where_nobody_may_start",
        HEAD,
        "a wide job waits for a worker that gets nothing for now, while narrow ones go past it everywhere else",
        "laws",
        (_RESERVATION, "or self.worker.leaving or self.worker.shut:", "or self.worker.leaving:"),
        (_RESERVATION, "worker.fits_ever(shape) and not worker.shut)", "worker.fits_ever(shape))"),
    ),
    # --- one outcome, and a true one ---------------------------------------------------------------------------------
    _bug(
        "accept_a_stale_attempt",
        HEAD,
        "an answer counts whoever gives it, for whatever attempt",
        "judge",
        (_MOVES, "job = worker.held.get(number)\n", "job = self.jobs.get(number)\n"),
        (_MOVES, "return job if job is not None and job.attempt == attempt else None", "return job"),
        (
            _HEAD,
            "held.get(number)\n            if job is None or job.attempt != attempts[row]:\n                continue",
            "self.jobs.get(number)\n            if job is None:\n                continue",
        ),
        (
            _HEAD,
            "held.get(number)\n            if job is None or job.attempt != attempts[row]:\n                self.late",
            "jobs.get(number)\n            if job is None:\n                self.late",
        ),
    ),
    _bug(
        "keep_the_attempt_of_a_lost_worker",
        HEAD,
        "a job that may have started unheard is sent out under the same number",
        "judge",
        (_HEAD, "job.attempt += 1  # it may have started, and the report was lost\n", "pass\n"),
    ),
    _bug(
        "settle_what_was_cancelled",
        HEAD,
        "a job has two outcomes: never_spawned wants it, and then a value",
        "judge",
        (
            _HEAD,
            "            if job.cancelled:\n                self._state.forget(job)\n            elif code ==",
            "            if code ==",
        ),
    ),
    _bug(
        "forget_what_came_back",
        HEAD,
        "the first of several jobs that come back is in no queue",
        "judge",
        (_MOVES, "            cls.put_back(group)\n", "            cls.put_back(group[1:])\n"),
    ),
    _bug(
        "fail_with_retries_left",
        HEAD,
        "the last retry is never made",
        "judge",
        (_ATTEMPTS, "tries_again(job.failures + 1, job.fn.retries,", "tries_again(job.failures + 2, job.fn.retries,"),
    ),
    _bug(
        "give_up_after_two_losses",
        HEAD,
        "a job is given up one loss too early",
        "judge",
        (_ATTEMPTS, "job.losses > (job.fn.losses", "job.losses >= (job.fn.losses"),
    ),
    _bug(
        "never_isolate_a_suspect",
        HEAD,
        "a poison job takes its neighbours along again and again",
        "judge",
        (_ATTEMPTS, "        if suspect:\n", "        if suspect and job.losses > 3:\n"),
    ),
    _bug(
        "count_a_stop_as_a_loss",
        HEAD,
        "a job that its worker had to end when it stopped is given up for lost",
        "judge",
        (_HEAD, "or (leased and not worker.stops) or", "or leased or"),
    ),
    _bug(
        "cancel_nothing",
        HEAD,
        "a job that never_spawned wants runs to its end",
        "judge",
        (
            _HEAD,
            "            out.append(CancelJobs(worker, [job.id for job in jobs], [job.attempt for job in jobs]))\n",
            "            pass\n",
        ),
    ),
    _bug(
        "warn_nobody",
        HEAD,
        "jobs wait for ever, and never_spawned is told",
        "judge",
        (
            _HEAD,
            "        if self._catalogue.doubted:\n            self._wake_at(complain(self._state, now, out), out)\n",
            "",
        ),
    ),
    _bug(
        "assign_to_one_who_leaves",
        HEAD,
        "a worker that says that it stops goes on getting jobs",
        "judge",
        (
            _WORKER_EVENTS,
            "        worker.leave(draining=draining)\n",
            "        if draining:\n            worker.leave(draining=draining)\n",
        ),
    ),
    # --- the head's amounts ------------------------------------------------------------------------------------------
    _bug(
        "ignore_a_lease",
        HEAD,
        "what a lease holds counts as free",
        "judge",
        (_MOVES, "        worker.take(shape)\n", ""),
    ),
    _bug(
        "never_free_a_lease",
        HEAD,
        "a lease that has ended counts for ever",
        "judge",
        (_HEAD, "                worker.give(worker_state.shape)\n", ""),
    ),
    _bug(
        "keep_a_share",
        HEAD,
        "what a job held counts against its program when it is gone",
        "laws",
        (_HEAD, "                self._planner.shares.give(worker_state.client, worker_state.shape)\n", ""),
    ),
    _bug(
        "place_by_stale_records",
        HEAD,
        "a worker counts as roomy that has been filled since",
        "judge",
        (_CANDIDATES, "if worker.gone or worker.version != version:", "if worker.gone:"),
    ),
    _bug(
        "forget_a_retract",
        HEAD,
        "a worker that was asked once to give jobs back is never asked again",
        "laws",
        (_WORKERS, "            recalled.discard(job.id)\n", ""),
    ),
    # --- order -------------------------------------------------------------------------------------------------------
    _bug(
        "swap_first_in_first_out",
        HEAD,
        "the youngest of a class goes first",
        "judge",
        (
            _HEAD,
            "            cls.add(jobs, event.ages)\n",
            "            for job in jobs:\n                cls.queue.appendleft(job)\n",
        ),
    ),
    _bug(
        "put_back_in_reverse",
        HEAD,
        "jobs that come back go to the front the wrong way round",
        "machine",
        (_RECORDS, "for job in sorted(jobs, key=_by_age, reverse=True):", "for job in sorted(jobs, key=_by_age):"),
    ),
    _bug(
        "forget_priority",
        HEAD,
        "only age counts",
        "judge",
        (_RECORDS, "return (-job.cls.priority, job.age if", "return (0, job.age if"),
    ),
    _bug(
        "block_those_behind",
        HEAD,
        "a class that does not fit keeps those behind it from starting",
        "machine",
        (
            _PLANNING,
            "                blocked.append(cls)\n                heappop(ranked)\n",
            "                blocked.append(cls)\n                ranked.clear()\n",
        ),
    ),
    _bug(
        "forget_what_runs",
        HEAD,
        "requests are forgotten that jobs at workers use",
        "machine",
        (_CATALOGUE, "        used.update(shape.id for shape in at_work())\n", ""),
    ),
    _bug(
        "look_only_where_something_changed",
        HEAD,
        "a class that is new is not compared with the workers that have had room for long",
        "machine",
        (_WAITING, "FEW = 64\n", "FEW = 0\n"),
        (
            _WAITING,
            "        elif cls.place is None:\n            self.add_new(cls, job)\n",
            "        elif cls.place is None:\n            self.add_blocked(cls, job, now, ())\n",
        ),
    ),
    _bug(
        "stop_at_the_first_block",
        HEAD,
        "a blocked class is not found where another stands before it that does not fit",
        "machine",
        (_WAITING, "FEW = 64\n", "FEW = 0\n"),
        (
            _INDEX,
            "                    if all(map(le, entry[3], room)):\n",
            "                    if all(map(le, block[0][3], room)):\n",
        ),
    ),
    _bug(
        "make_no_pass_where_room_came",
        HEAD,
        "what waits is not looked at when a job has ended",
        "machine",
        (_WAITING, "FEW = 64\n", "FEW = 0\n"),
        (_PLANNING, "self._lending or self._read != (log.epoch, len(log.entries))\n", "self._lending\n"),
    ),
    _bug(
        "make_no_pass_for_jobs_that_fit",
        HEAD,
        "new jobs wait although a worker has room for them",
        "machine",
        (_WAITING, "FEW = 64\n", "FEW = 0\n"),
        (
            _CANDIDATES,
            "            return False\n    return True\n\n\ndef tightest_of(",
            "            break\n    return True\n\n\ndef tightest_of(",
        ),
    ),
    _bug(
        "prefer_the_last_shape",
        HEAD,
        "of `a | b`, b is taken though a fits",
        "machine",
        (
            _PLANNING,
            "        for shape in cls.shapes:\n            block =",
            "        for shape in cls.shapes[::-1]:\n            block =",
        ),
    ),
    _bug(
        "drop_a_reservation",
        HEAD,
        "no worker is kept for a wide job",
        "waits",
        (_RESERVING, "                self._keep_for(job, reservations)\n", ""),
    ),
    _bug(
        "lose_patience",
        HEAD,
        "who is not wide is passed over for ever",
        "waits",
        (
            _RESERVING,
            "workers = self._workers.values() if patient or shape.nodes > 1 else self._wide_for(shape)",
            "workers = self._wide_for(shape)",
        ),
    ),
    _bug(
        "notice_nobody_who_was_passed_over",
        HEAD,
        "no worker is kept for a narrow job, however many start that go later",
        "waits",
        (_PATIENCE, "                    first.cls.passed_since = now\n", ""),
    ),
    _bug(
        "backfill_past_the_reservation",
        HEAD,
        "jobs that outlast the reserved start are let in",
        "waits",
        (_RESERVATION, "if ends_by(job.fn, shape, now) <= self.start", "if ends_by(job.fn, shape, now) > self.start"),
    ),
    _bug(
        "send_ahead_past_a_blocked_job",
        HEAD,
        "quick jobs hand their slots on past a more urgent one",
        "waits",
        (
            _AHEAD,
            "if not any(_goes_first(blocked_class, job, shape, worker) for blocked_class in blocked_ahead):",
            "if True:",
        ),
        (_AHEAD, "            self._make_way(blocked_class, changed, out)\n", "            pass\n"),
    ),
    _bug(
        "lose_a_take_back",
        HEAD,
        "what was to come back is never asked for",
        "waits",
        (_AHEAD, "out.append(RetractJobs(", "[].append(RetractJobs("),
    ),
    # --- limits, rates, times ----------------------------------------------------------------------------------------
    _bug(
        "count_a_limit_twice",
        HEAD,
        "each job counts two under its limit, and gives one back",
        "judge",
        (_RATIONS, "self._running.get(name, 0) + 1\n", "self._running.get(name, 0) + 2\n"),
    ),
    _bug(
        "one_too_many_under_a_limit",
        HEAD,
        "a limit of two lets three run",
        "judge",
        (
            _RATIONS,
            "if (self._running.get(name, 0) + 1) * _UNIT > most:",
            "if self._running.get(name, 0) * _UNIT > most:",
        ),
    ),
    _bug(
        "keep_the_limit_of_a_lost_worker",
        HEAD,
        "who was lost with its worker counts under its limit for ever",
        "judge",
        (_MOVES, "        if shape.rationed:\n", "        if shape.rationed and not worker.gone:\n"),
    ),
    _bug(
        "let_a_rate_burst",
        HEAD,
        "a rate spaces launches by half of what it should",
        "judge",
        (_RATIONS, "+ _UNIT / per_second", "+ _UNIT / per_second / 2"),
    ),
    _bug(
        "never_refill_a_rate",
        HEAD,
        "a rate gives half of what it should, whatever time has passed",
        "waits",
        (_RATIONS, "max(earliest, self._next.get(name, now)) + _UNIT", "self._next.get(name, now) + 2 * _UNIT"),
    ),
    _bug(
        "start_where_time_is_short",
        HEAD,
        "a job starts on a worker whose end it will not outlive",
        "judge",
        (
            _WORKERS,
            "return seconds is None or start + seconds <= self.until",
            "return seconds is None or start <= self.until",
        ),
    ),
    _bug(
        "look_at_the_wall_clock",
        HEAD,
        "planning goes by the clock on the wall",
        "replay",
        (
            _HEAD,
            "plan(now, out)\n            if rooms.without_room or self._state",
            'plan(__import__("time").time(), out)\n            if rooms.without_room or self._state',
        ),
    ),
    _bug(
        "iterate_over_a_set",
        HEAD,
        "who of a batch stands first in the queue depends on Python's hashes",
        "replay",
        (
            _HEAD,
            "            cls.add(jobs, event.ages)\n",
            "            cls.queue.extend(self.jobs[int(number)] for number in {*map(str, event.jobs)})\n",
        ),
    ),
    # --- the node's ids ----------------------------------------------------------------------------------------------
    _bug(
        "skip_a_release",
        NODE,
        "the ids of every fifth lease are never free again",
        "judge",
        (
            _NODE,
            "        self._ledger.release(lease.grant)\n",
            "        if lease.id % 5:\n            self._ledger.release(lease.grant)\n",
        ),
    ),
    _bug(
        "grant_before_the_process_is_gone",
        NODE,
        "ids are given on while a process lives that was told to die",
        "judge",
        (_NODE, "        if not lease.jobs and not lease.runner.terminating:\n", "        if not lease.jobs:\n"),
    ),
    _bug(
        "never_say_that_a_lease_ended",
        NODE,
        "the head never hears that slots are free",
        "judge",
        (_NODE, "        out.append(TellEnded(lease.id))\n", ""),
    ),
    _bug(
        "give_one_runner_two_leases",
        NODE,
        "a process that holds a lease gets another beside it",
        "machine",
        (_RUNNERS, "return self._idle.pop() if self._idle", "return self._idle[-1] if self._idle"),
    ),
    # --- the node's jobs ---------------------------------------------------------------------------------------------
    _bug(
        "return_what_was_running",
        NODE,
        "the job that killed its process is run again as if it had not begun",
        "judge",
        (
            "scheduler/node/_records.py",
            "elif own and job.position > suspect:",
            "elif own and job.position >= suspect:",
        ),
    ),
    _bug(
        "barrier_one_too_low",
        NODE,
        "the job at a barrier is taken for one that has not begun",
        "judge",
        (_NODE, "if job.position > event.started]", "if job.position >= event.started]"),
    ),
    _bug(
        "retract_what_has_begun",
        NODE,
        "a job that runs is given back",
        "judge",
        (
            _NODE,
            "        waiting = [job for job in self._named(event.jobs, event.attempts) if job.lease is None]\n",
            "        waiting = self._named(event.jobs, event.attempts)\n",
        ),
    ),
    _bug(
        "tell_nobody_of_a_cancelled_job",
        NODE,
        "a job that was cancelled while it waited is never answered",
        "judge",
        (_NODE, "        self._tell_ends(waiting, Code.CANCELLED, now, out)\n", ""),
    ),
    _bug(
        "start_what_is_gone",
        NODE,
        "a job that was told of as cancelled gets a lease all the same",
        "judge",
        (
            "scheduler/node/_records.py",
            "    while queue and queue[0].gone:\n",
            "    while queue and queue[0].gone and queue[0].stopped is None:\n",
        ),
    ),
    _bug(
        "let_the_ahead_go_first",
        NODE,
        "planned jobs stand in line with those that were sent ahead",
        "machine",
        (_NODE, "queue = cls.ahead if event.ahead else self._planned", "queue = cls.ahead"),
    ),
    _bug(
        "ignore_a_timeout",
        NODE,
        "never_spawned is ended for its time",
        "judge",
        (
            _NODE,
            "        if limit is not None:\n",
            "        if limit is not None and len(run_list) > 1:\n",
        ),
    ),
    _bug(
        "forget_since_when_it_runs",
        NODE,
        "a job of a run-list is timed from the barrier, not from its own beginning",
        "waits",
        (_NODE, "self._runners.limit(lease, now - event.ran_s)", "self._runners.limit(lease, now)"),
    ),
    _bug(
        "count_it_twice",
        NODE,
        "a job of a run-list has run for twice as long as it has, and is ended before its time",
        "waits",
        (_NODE, "now - event.ran_s)", "now - 2 * event.ran_s)"),
    ),
    _bug(
        "count_the_start",
        NODE,
        "the start of a process is taken from the time of its first job",
        "machine",
        (_RUNNERS, "lease.limit_s + (0.0 if lease.runner.ready else START_S)", "lease.limit_s"),
    ),
    _bug(
        "forget_when_it_was_ready",
        NODE,
        "the time of a process's first job is never reckoned anew when it begins",
        "judge",
        (_NODE, "ready=isinstance(event, RunnerReady)", "ready=False"),
    ),
    _bug(
        "forget_who_is_ready",
        NODE,
        "a process that says that it is ready has to say so of each job that may run for so long only",
        "judge",
        (_RUNNERS, "            runner.ready = ready\n", ""),
    ),
    _bug(
        "never_kill",
        NODE,
        "a process that takes no notice of SIGTERM lives for ever",
        "judge",
        (_RUNNERS, '            self._timers.add(now + self._grace_s, lease.id, "kill")\n', ""),
    ),
    _bug(
        "start_jobs_while_stopping",
        NODE,
        "a node that was told to stop grants what comes later",
        "judge",
        (
            _NODE,
            "        if self._stopped:\n            self._stop_all",
            "        if isinstance(event, NodeStopped):\n            self._stop_all",
        ),
    ),
    _bug(
        "ignore_a_stop",
        NODE,
        "a node that was told to stop lets its jobs run on",
        "judge",
        (_NODE, "                self._stopped = True\n", "                pass\n"),
    ),
    _bug(
        "outlive_the_head",
        NODE,
        "a node whose head is gone gives back what waits, and lets run what runs",
        "orphans",
        (
            _NODE,
            "        for lease in list(self._leases.values()):\n            running =",
            "        for lease in [*self._leases.values()][:0]:\n            running =",
        ),
    ),
    # --- jobs of jobs ------------------------------------------------------------------------------------------------
    _bug(
        "resume_without_cores",
        NODE,
        "a job that waited goes on though others have its cores",
        "nested",
        (
            _LENDING,
            (
                "            if not self._ledger.reclaim(lease.grant):\n                return False\n"
                "            self._lent -= lease.grant.allocation.units[_CORES]\n"
            ),
            "            self._lent -= lease.grant.lent[_CORES].units[_CORES]\n            lease.grant.lent = {}\n",
        ),
    ),
    _bug(
        "lend_what_is_to_be_kept",
        NODE,
        "a job that keeps its cores while it waits loses them",
        "nested",
        (_LENDING, "not (job.fn.keep or lease.keeps) and _CORES in", "_CORES in"),
    ),
    _bug(
        "never_go_on",
        NODE,
        "who has to wait for its cores waits for ever",
        "nested",
        (_LENDING, "        while self.wanting and self._regain(*self.wanting[0], out):\n", "        while False:\n"),
        (_LENDING, "        if self.wanting and not self._anybody_runs():\n", "        if False:\n"),
    ),
    _bug(
        "hand_lent_cores_to_the_queue",
        NODE,
        "who wants cores back that it lent waits until no queued job wants them",
        "lenders",
        (
            _LENDING,
            "            return True\n        return self.wanted\n",
            "            return True\n        return False\n",
        ),
    ),
    _bug(
        "start_the_ahead_on_lent_cores",
        NODE,
        "what was sent ahead takes the cores of a job that waits from that job's own",
        "lenders",
        (
            _LENDING,
            "        if ahead and self._ledger.free[_CORES] - self._lent <",
            "        if ahead and self._ledger.free[_CORES] <",
        ),
    ),
    _bug(
        "go_on_out_of_turn",
        NODE,
        "who finds room goes on, though others have wanted their cores back for longer",
        "lenders",
        (
            _LENDING,
            "        if (self.wanting and self._anybody_runs()) or not self._regain",
            "        if not self._regain",
        ),
    ),
    _bug(
        "forget_a_loan",
        HEAD,
        "cores that were lent count as free for ever when their lease ends",
        "nested",
        (_HEAD, "                if worker_state.lent:\n                    worker.reclaim(worker_state)\n", ""),
    ),
    _bug(
        "never_detect_the_circle",
        HEAD,
        "jobs that wait for each other in a circle wait for ever",
        "nested",
        (_DEADLOCK, "    if not stuck:\n        return None\n", "    if len(stuck) >= 0:\n        return None\n"),
    ),
    _bug(
        "see_a_circle_where_none_is",
        HEAD,
        "what would be given back is not counted, and a job is failed that could have run",
        "nested",
        (_DEADLOCK, "                self._give(worker, job)\n", ""),
    ),
    _bug(
        "tell_nobody_of_a_loan",
        NODE,
        "the head never hears that cores are lent",
        "machine",
        (_LENDING, "_slots(lease, job), bool(lease.grant.lent)", "_slots(lease, job), False"),
    ),
    _bug(
        "queue_the_shallow_first",
        HEAD,
        "a tree of jobs goes wide before it goes down",
        "machine",
        (
            _RECORDS,
            "        heappush(self._heap, (-job.depth, job.age, job))\n",
            "        heappush(self._heap, (job.depth, job.age, job))\n",
        ),
    ),
    _bug(
        "keep_a_loan_for_ever",
        HEAD,
        "what a job has lent counts as free though it goes on",
        "machine",
        (
            "scheduler/_job_tree.py",
            "            worker.lend(lease) if wait.lent else worker.reclaim(lease)\n",
            "            worker.lend(lease) if wait.lent else None\n",
        ),
    ),
    _bug(
        "let_orphans_live",
        HEAD,
        "the jobs of an attempt that has ended run on",
        "nested",
        ("scheduler/_job_tree.py", "            self.orphans += job.family.children\n", ""),
    ),
)
