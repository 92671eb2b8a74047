"""Bugs made by hand in the node's scheduler, and in the messages between it and the head's; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import NODE, TALK, Bug, seeded_bug

__all__ = ["NODE_BUGS"]

_NODE = "scheduler/node/_scheduler.py"
_RUNNERS = "scheduler/node/_runners.py"
_HOLDS = "scheduler/node/_holds.py"
_LENDING = "scheduler/node/_lending.py"
_TRANSCRIPT = "wire/_resend_buffer.py"

NODE_BUGS: tuple[Bug, ...] = (
    # --- memory of devices that idle processes hold ------------------------------------------------------------------
    seeded_bug(
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
    seeded_bug(
        "keep_the_process_of_other_devices",
        NODE,
        "a job on a device begins in a process that holds memory of others, or another share of it",
        "judge",
        (_RUNNERS, "        return bool(before) and before != runner.devices\n", "        return False\n"),
    ),
    seeded_bug(
        "replace_where_it_is_what_holds_more",
        NODE,
        "a job on a part of the devices that a process had begins in its successor, and others on the rest before that",
        "judge",
        (_RUNNERS, "        return within and any(self._held", "        return any(self._held"),
    ),
    seeded_bug(
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
    seeded_bug(
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
    seeded_bug(
        "hold_slots_whose_memory_is_not_free",
        NODE,
        "slots are held for a gang while idle processes hold the memory of their devices",
        "gangs",
        (_HOLDS, "not None and hold.cls.devices and not ", "not None and hold.cls is None and not "),
    ),
    # --- links that break --------------------------------------------------------------------------------------------
    seeded_bug(
        "send_all_again_that_is_kept",
        TALK,
        "after a break, what had come and was not acknowledged is sent a second time",
        "judge",
        (_TRANSCRIPT, "        self.acknowledged(count)\n        return [", "        return ["),
    ),
    seeded_bug(
        "forget_what_is_not_acknowledged",
        TALK,
        "what was sent a while ago is not kept, whether or not it has come",
        "judge",
        (_TRANSCRIPT, "return self.sent_in_all - len(self._kept) <= count <= ", "return count <= "),
        (_TRANSCRIPT, "len(self._kept) > MOST_COUNT", "len(self._kept) > 2"),
        (_TRANSCRIPT, "for _ in range(count - first):", "for _ in range(min(count - first, len(self._kept))):"),
    ),
    # --- the node's ids ----------------------------------------------------------------------------------------------
    seeded_bug(
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
    seeded_bug(
        "grant_before_the_process_is_gone",
        NODE,
        "ids are given on while a process lives that was told to die",
        "judge",
        (_NODE, "        if not lease.jobs and not lease.runner.terminating:\n", "        if not lease.jobs:\n"),
    ),
    seeded_bug(
        "never_say_that_a_lease_ended",
        NODE,
        "the head never hears that slots are free",
        "judge",
        (_NODE, "        out.append(TellEnded(lease.id))\n", ""),
    ),
    seeded_bug(
        "give_one_runner_two_leases",
        NODE,
        "a process that holds a lease gets another beside it",
        "machine",
        (_RUNNERS, "return self._idle.pop() if self._idle", "return self._idle[-1] if self._idle"),
    ),
    # --- the node's jobs ---------------------------------------------------------------------------------------------
    seeded_bug(
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
    seeded_bug(
        "barrier_one_too_low",
        NODE,
        "the job at a barrier is taken for one that has not begun",
        "judge",
        (_NODE, "if job.position > event.started]", "if job.position >= event.started]"),
    ),
    seeded_bug(
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
    seeded_bug(
        "tell_nobody_of_a_cancelled_job",
        NODE,
        "a job that was cancelled while it waited is never answered",
        "judge",
        (_NODE, "        self._tell_ends(waiting, Code.CANCELLED, now, out)\n", ""),
    ),
    seeded_bug(
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
    seeded_bug(
        "let_the_ahead_go_first",
        NODE,
        "planned jobs stand in line with those that were sent ahead",
        "machine",
        (_NODE, "queue = cls.ahead if event.ahead else self._planned", "queue = cls.ahead"),
    ),
    seeded_bug(
        "ignore_a_timeout",
        NODE,
        "nothing is ended for its time",
        "judge",
        (
            _NODE,
            "        if limit is not None:\n",
            "        if limit is not None and len(run_list) > 1:\n",
        ),
    ),
    seeded_bug(
        "forget_since_when_it_runs",
        NODE,
        "a job of a run-list is timed from the barrier, not from its own beginning",
        "waits",
        (_NODE, "self._runners.limit(lease, now - event.ran_s)", "self._runners.limit(lease, now)"),
    ),
    seeded_bug(
        "time_it_as_one_before_it",
        NODE,
        "a job of a run-list is ended by the time limit of one before it, the end of which was not told yet",
        "waits",
        (_RUNNERS, "max(lease.clocked.limit_s,", "max(next(iter(lease.jobs.values())).limit_s,"),
    ),
    seeded_bug(
        "count_it_twice",
        NODE,
        "a job of a run-list has run for twice as long as it has, and is ended before its time",
        "waits",
        (_NODE, "now - event.ran_s)", "now - 2 * event.ran_s)"),
    ),
    seeded_bug(
        "count_the_start",
        NODE,
        "the start of a process is taken from the time of its first job",
        "machine",
        (_RUNNERS, "limit_s + (0.0 if lease.runner.ready else START_S)", "limit_s"),
    ),
    seeded_bug(
        "forget_when_it_was_ready",
        NODE,
        "the time of a process's first job is never reckoned anew when it begins",
        "judge",
        (_NODE, "ready=isinstance(event, RunnerReady)", "ready=False"),
    ),
    seeded_bug(
        "forget_who_is_ready",
        NODE,
        "a process that says that it is ready has to say so of each job that may run for so long only",
        "judge",
        (_RUNNERS, "            runner.ready = ready\n", ""),
    ),
    seeded_bug(
        "never_kill",
        NODE,
        "a process that takes no notice of SIGTERM lives for ever",
        "judge",
        (_RUNNERS, '            self._timers.add(now + self._grace_s, lease.id, "kill")\n', ""),
    ),
    seeded_bug(
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
    seeded_bug(
        "ignore_a_stop",
        NODE,
        "a node that was told to stop lets its jobs run on",
        "judge",
        (_NODE, "                self._stopped = True\n", "                pass\n"),
    ),
    seeded_bug(
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
    seeded_bug(
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
    seeded_bug(
        "lend_what_is_to_be_kept",
        NODE,
        "a job that keeps its cores while it waits loses them",
        "nested",
        (_LENDING, "not (job.fn.keep or lease.keeps) and _CORES in", "_CORES in"),
    ),
    seeded_bug(
        "never_go_on",
        NODE,
        "who has to wait for its cores waits for ever",
        "nested",
        (_LENDING, "        while self.wanting and self._regain(*self.wanting[0], out):\n", "        while False:\n"),
        (_LENDING, "        if self.wanting and not self._anybody_runs():\n", "        if False:\n"),
    ),
    seeded_bug(
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
    seeded_bug(
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
    seeded_bug(
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
    seeded_bug(
        "tell_nobody_of_a_loan",
        NODE,
        "the head never hears that cores are lent",
        "machine",
        (_LENDING, "_slots(lease, job), bool(lease.grant.lent)", "_slots(lease, job), False"),
    ),
)
