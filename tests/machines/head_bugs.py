"""Bugs made by hand in the head's scheduler; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import HEAD, Bug, seeded_bug

__all__ = ["HEAD_BUGS"]

_HEAD = "scheduler/_head.py"
_WORKERS = "scheduler/_workers.py"
_PLANNING = "scheduler/planning/_planner.py"
_RESERVING = "scheduler/planning/_reservations.py"
_AHEAD = "scheduler/planning/_ahead.py"
_RATIONS = "scheduler/planning/_start_limits.py"
_RESERVATION = "scheduler/planning/_reservation.py"
_ATTEMPTS = "scheduler/_attempts.py"
_MOVES = "scheduler/_state.py"
_RECORDS = "scheduler/_records.py"
_PATIENCE = "scheduler/planning/_patience.py"
_INDEX = "scheduler/planning/_class_index.py"
_WAITING = "scheduler/planning/_waiting.py"
_CATALOGUE = "scheduler/_catalogue.py"
_CANDIDATES = "scheduler/planning/_candidates.py"
_WORKER_EVENTS = "scheduler/_worker_events.py"
_DEADLOCK = "scheduler/_deadlock.py"
_BACKOFF = "scheduler/_backoff.py"

HEAD_BUGS: tuple[Bug, ...] = (
    # --- memory of jobs, and workers that fail or are silent ----------------------------------------------------------
    seeded_bug(
        "give_each_job_all_the_memory_of_its_lease",
        HEAD,
        "jobs that share a lease are told the rounded amount of memory, not what they asked for",
        "judge",
        (_AHEAD, "tuple([job.memory for job in jobs]) if", "() if"),
    ),
    seeded_bug(
        "round_memory_far_up",
        HEAD,
        "a lease has twice the memory that its jobs asked for",
        "judge",
        ("resources/_rounding.py", "_STEPS_BITS = 4", "_STEPS_BITS = 0"),
    ),
    seeded_bug(
        "keep_no_quarantine",
        HEAD,
        "a worker that can start no process gets the next job at once",
        "judge",
        (_ATTEMPTS, 'worker.shut_for("quarantine", why)', "pass"),
    ),
    seeded_bug(
        "try_again_at_once",
        HEAD,
        "a job that was to wait before its next attempt does not",
        "judge",
        (_BACKOFF, "while self._heap and (self._heap[0][0] <= now or", "while self._heap and (now > 0.0 or"),
        (_BACKOFF, "if job is not None and job.again_at <= now:", "if job is not None:"),
    ),
    seeded_bug(
        "trust_the_silent",
        HEAD,
        "a worker that is not heard gets jobs as ever",
        "judge",
        (_WORKERS, "return not self.shut and self.has_room(shape)", "return self.has_room(shape)"),
    ),
    seeded_bug(
        "keep_a_place_where_nobody_may_start",
        HEAD,
        "a wide job waits for a worker that gets nothing for now, while narrow ones go past it everywhere else",
        "laws",
        (_RESERVATION, "or self.worker.leaving or self.worker.shut:", "or self.worker.leaving:"),
        (_RESERVATION, "if not worker.shut and worker.fits_ever(shape)]", "if worker.fits_ever(shape)]"),
    ),
    # --- one outcome, and a true one ---------------------------------------------------------------------------------
    seeded_bug(
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
    seeded_bug(
        "keep_the_attempt_of_a_lost_worker",
        HEAD,
        "a job that may have started unheard is sent out under the same number",
        "judge",
        (_HEAD, "job.attempt += 1  # it may have started, and the report was lost\n", "pass\n"),
    ),
    seeded_bug(
        "settle_what_was_cancelled",
        HEAD,
        "a job has two outcomes: never_spawned wants it, and then a value",
        "judge",
        (
            _HEAD,
            "        if job.cancelled:\n            self._state.forget(job)\n        elif code !=",
            "        if code !=",
        ),
    ),
    seeded_bug(
        "forget_what_came_back",
        HEAD,
        "the first of several jobs that come back is in no queue",
        "judge",
        (_MOVES, "            cls.put_back(group)\n", "            cls.put_back(group[1:])\n"),
    ),
    seeded_bug(
        "fail_with_retries_left",
        HEAD,
        "the last retry is never made",
        "judge",
        (_ATTEMPTS, "tries_again(job.failures + 1, job.fn.retries,", "tries_again(job.failures + 2, job.fn.retries,"),
    ),
    seeded_bug(
        "give_up_after_two_losses",
        HEAD,
        "a job is given up one loss too early",
        "judge",
        (_ATTEMPTS, "job.losses > (job.fn.losses", "job.losses >= (job.fn.losses"),
    ),
    seeded_bug(
        "never_isolate_a_suspect",
        HEAD,
        "a poison job takes its neighbours along again and again",
        "judge",
        (_ATTEMPTS, "        if suspect:\n", "        if suspect and job.losses > 3:\n"),
    ),
    seeded_bug(
        "count_a_stop_as_a_loss",
        HEAD,
        "a job that its worker had to end when it stopped is given up for lost",
        "judge",
        (_HEAD, "or (leased and not worker.stops) or", "or leased or"),
    ),
    seeded_bug(
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
    seeded_bug(
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
    seeded_bug(
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
    seeded_bug(
        "ignore_a_lease",
        HEAD,
        "what a lease holds counts as free",
        "judge",
        (_MOVES, "        worker.take(shape)\n", ""),
    ),
    seeded_bug(
        "never_free_a_lease",
        HEAD,
        "a lease that has ended counts for ever",
        "judge",
        (_HEAD, "                worker.give(worker_state.shape)\n", ""),
    ),
    seeded_bug(
        "keep_a_share",
        HEAD,
        "what a job held counts against its program when it is gone",
        "laws",
        (_HEAD, "                self._planner.shares.give(worker_state.client, worker_state.shape)\n", ""),
    ),
    seeded_bug(
        "place_by_stale_records",
        HEAD,
        "a worker counts as roomy that has been filled since",
        "judge",
        (_CANDIDATES, "if worker.gone or worker.version != version:", "if worker.gone:"),
    ),
    seeded_bug(
        "forget_a_retract",
        HEAD,
        "a worker that was asked once to give jobs back is never asked again",
        "laws",
        (_WORKERS, "            recalled.discard(job.id)\n", ""),
    ),
    # --- order -------------------------------------------------------------------------------------------------------
    seeded_bug(
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
    seeded_bug(
        "put_back_in_reverse",
        HEAD,
        "jobs that come back go to the front the wrong way round",
        "machine",
        (_RECORDS, "for job in sorted(jobs, key=_by_age, reverse=True):", "for job in sorted(jobs, key=_by_age):"),
    ),
    seeded_bug(
        "forget_priority",
        HEAD,
        "only age counts",
        "judge",
        (_RECORDS, "return (-job.cls.priority, job.age if", "return (0, job.age if"),
    ),
    seeded_bug(
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
    seeded_bug(
        "forget_what_runs",
        HEAD,
        "requests are forgotten that jobs at workers use",
        "machine",
        (_CATALOGUE, "        used.update(shape.id for shape in at_work())\n", ""),
    ),
    seeded_bug(
        "look_only_where_something_changed",
        HEAD,
        "a class that is new is not compared with the workers that have had room for long",
        "machine",
        (_WAITING, "FEW = 16\n", "FEW = 0\n"),
        (
            _WAITING,
            "        elif cls.place is None:\n            self.add_new(cls, job)\n",
            "        elif cls.place is None:\n            self.add_blocked(cls, job, now, ())\n",
        ),
    ),
    seeded_bug(
        "stop_at_the_first_block",
        HEAD,
        "a blocked class is not found where another stands before it that does not fit",
        "machine",
        (_WAITING, "FEW = 16\n", "FEW = 0\n"),
        (
            _INDEX,
            "and all(map(le, entry[3], room)):\n",
            "and all(map(le, block[0][3], room)):\n",
        ),
    ),
    seeded_bug(
        "make_no_pass_where_room_came",
        HEAD,
        "what waits is not looked at when a job has ended",
        "machine",
        (_WAITING, "FEW = 16\n", "FEW = 0\n"),
        (_PLANNING, "self._lending or self._read != (log.epoch, len(log.entries))\n", "self._lending\n"),
    ),
    seeded_bug(
        "make_no_pass_for_jobs_that_fit",
        HEAD,
        "new jobs wait although a worker has room for them",
        "machine",
        (_WAITING, "FEW = 16\n", "FEW = 0\n"),
        (
            _CANDIDATES,
            "            return False\n    return True\n\n\ndef tightest_of(",
            "            break\n    return True\n\n\ndef tightest_of(",
        ),
    ),
    seeded_bug(
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
    seeded_bug(
        "drop_a_reservation",
        HEAD,
        "no worker is kept for a wide job",
        "waits",
        (_RESERVING, "                self._keep_for(job, reservations)\n", ""),
    ),
    seeded_bug(
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
    seeded_bug(
        "notice_nobody_who_was_passed_over",
        HEAD,
        "no worker is kept for a narrow job, however many start that go later",
        "waits",
        (_PATIENCE, "                    first.cls.passed_since = now\n", ""),
    ),
    seeded_bug(
        "backfill_past_the_reservation",
        HEAD,
        "jobs that outlast the reserved start are let in",
        "waits",
        (
            _RESERVATION,
            "return ends_by(job.fn, shape, now) <= self.start",
            "return ends_by(job.fn, shape, now) > self.start",
        ),
    ),
    seeded_bug(
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
    seeded_bug(
        "lose_a_take_back",
        HEAD,
        "what was to come back is never asked for",
        "waits",
        (_AHEAD, "out.append(RetractJobs(", "[].append(RetractJobs("),
    ),
    # --- limits, rates, times ----------------------------------------------------------------------------------------
    seeded_bug(
        "count_a_limit_twice",
        HEAD,
        "each job counts two under its limit, and gives one back",
        "judge",
        (_RATIONS, "self._running.get(name, 0) + 1\n", "self._running.get(name, 0) + 2\n"),
    ),
    seeded_bug(
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
    seeded_bug(
        "keep_the_limit_of_a_lost_worker",
        HEAD,
        "who was lost with its worker counts under its limit for ever",
        "judge",
        (_MOVES, "        if shape.rationed:\n", "        if shape.rationed and not worker.gone:\n"),
    ),
    seeded_bug(
        "let_a_rate_burst",
        HEAD,
        "a rate spaces launches by half of what it should",
        "judge",
        (_RATIONS, "+ _UNIT / per_second", "+ _UNIT / per_second / 2"),
    ),
    seeded_bug(
        "never_refill_a_rate",
        HEAD,
        "a rate gives half of what it should, whatever time has passed",
        "waits",
        (_RATIONS, "max(earliest, self._next.get(name, now)) + _UNIT", "self._next.get(name, now) + 2 * _UNIT"),
    ),
    seeded_bug(
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
    seeded_bug(
        "look_at_the_wall_clock",
        HEAD,
        "planning goes by the clock on the wall",
        "replay",
        (
            _HEAD,
            "plan(now, out)\n        if rooms.without_room or self._state",
            'plan(__import__("time").time(), out)\n        if rooms.without_room or self._state',
        ),
    ),
    seeded_bug(
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
    # --- jobs of jobs ------------------------------------------------------------------------------------------------
    seeded_bug(
        "forget_a_loan",
        HEAD,
        "cores that were lent count as free for ever when their lease ends",
        "nested",
        (_HEAD, "                if worker_state.lent:\n                    worker.reclaim(worker_state)\n", ""),
    ),
    seeded_bug(
        "never_detect_the_circle",
        HEAD,
        "jobs that wait for each other in a circle wait for ever",
        "nested",
        (_DEADLOCK, "    if not stuck:\n        return None\n", "    if len(stuck) >= 0:\n        return None\n"),
    ),
    seeded_bug(
        "see_a_circle_where_none_is",
        HEAD,
        "what would be given back is not counted, and a job is failed that could have run",
        "nested",
        (_DEADLOCK, "                self._give(worker, job)\n", ""),
    ),
    seeded_bug(
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
    seeded_bug(
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
    seeded_bug(
        "let_orphans_live",
        HEAD,
        "the jobs of an attempt that has ended run on",
        "nested",
        ("scheduler/_job_tree.py", "            self.orphans += job.family.children\n", ""),
    ),
)
