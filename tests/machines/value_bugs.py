# ruff: noqa: E501 - lines of the sources stand here as they are
"""Bugs made by hand in what the head's scheduler does with values that stay at workers; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import HEAD, Bug, Change

__all__ = ["VALUE_BUGS", "VALUE_SUITES"]

VALUE_SUITES = {
    "values": "tests/simulation/test_value_worlds.py::test_no_promise_is_broken",
    "stores": "tests/simulation/test_value_worlds.py::test_no_promise_is_broken_where_stores_are_full",
    "outputs": "tests/simulation/test_value_worlds.py::test_no_promise_is_broken_where_outputs_find_no_room",
    "lost copies": "tests/unit/scheduler/test_head_replication.py::test_a_copy_of_a_value_that_is_lost_keeps_no_room_from_others",
    "rests": "tests/simulation/test_value_worlds.py::test_looks_that_are_left_out_would_change_nothing[full_stores]",
    "unpaid": "tests/unit/scheduler/test_head_overdrafts.py",
    "misfits": "tests/unit/scheduler/test_head_misfits.py",
    "failed copies": "tests/unit/scheduler/test_head_rests.py",
    "kept room": "tests/unit/scheduler/test_head_kept_room.py",
    "rooms of inputs": "tests/unit/scheduler/test_head_rooms.py",
    "whole inputs": "tests/unit/scheduler/test_head_tiers.py",
    "relocations": "tests/simulation/test_value_worlds.py::test_values_that_are_kept_make_way_where_a_job_would_wait_for_ever",
}

_TABLE, _VALUES = "scheduler/values/_table.py", "scheduler/values/_values.py"
_TRANSFERS, _HOMES, _NEAR = (
    "scheduler/values/_transfers.py",
    "scheduler/values/_homes.py",
    "scheduler/planning/_near.py",
)
_ROOMS, _CONSUMERS = "scheduler/values/_rooms.py", "scheduler/planning/_consumers.py"
_SPARES, _RELOCATIONS = "scheduler/values/_spares.py", "scheduler/values/_relocations.py"
_REACH, _REPLICATION, _LEAVING = (
    "scheduler/values/_reach.py",
    "scheduler/values/_replication.py",
    "scheduler/values/_leaving.py",
)
_HEAD, _STATE, _ATTEMPTS = "scheduler/_head.py", "scheduler/_state.py", "scheduler/_attempts.py"
_AHEAD = "scheduler/planning/_ahead.py"


def _bug(name: str, breaks: str, *changes: tuple[str, str, str], suite: str = "values") -> Bug:
    return Bug(name, HEAD, breaks, suite, tuple(Change(*change) for change in changes))


VALUE_BUGS: tuple[Bug, ...] = (
    _bug(
        "give_up_jobs_for_an_overdraft_while_others_compute",
        "a job that waits for an overdraft is given up though a job that runs may free room for it",
        (
            _VALUES,
            "        return all(stands_still(job, now) for worker in workers for job in worker.held.values())",
            "        return True",
        ),
        suite="unpaid",
    ),
    _bug(
        "give_up_jobs_for_an_overdraft_that_programs_may_pay_back",
        "a job that waits for an overdraft is given up though its program has not let go of values yet",
        ("scheduler/values/_overdrafts.py", "value.replicas if value.users else ()", "value.replicas"),
        suite="unpaid",
    ),
    _bug(
        "let_arguments_travel_with_a_job_that_lacks_room_for_other_inputs",
        "a large argument travels with each job that has no room, though none can run with it",
        ("scheduler/values/_overdrafts.py", "if own and any(needed.shortage", "if own or any(needed.shortage"),
        suite="misfits",
    ),
    _bug(
        "drop_when_the_owner_lets_go",
        "a value goes though jobs that have not ended need it",
        (
            _TABLE,
            "            value.owned = value.unreached = False",
            "            value.owned = value.unreached = False\n            self.drop(value, value.replicas)",
        ),
    ),
    _bug(
        "keep_what_nobody_needs",
        "the interest of a job that has ended stays",
        (_TABLE, "value.users.pop(job.id, None) is not None", "value.users.get(job.id) is None"),
    ),
    _bug(
        "drop_at_the_start_of_the_dependent",
        "a job's inputs may go as soon as it was sent to a worker",
        (
            "scheduler/planning/_planner.py",
            "            self.near.transfers.unclaim(job)\n",
            "            self.near.transfers.unclaim(job)\n            self.near.table.needs_no_more(job)\n",
        ),
    ),
    _bug(
        "forget_stale_bytes",
        "the value of an attempt that does not count stays at its worker",
        (
            _VALUES,
            "                table.drop_stale(worker.id, completed.jobs[row], attempt)\n                continue\n            again",
            "                continue\n            again",
        ),
    ),
    _bug(
        "forget_bytes_that_came_too_late",
        "a copy that nobody needs any more when it comes stays",
        (
            _TRANSFERS,
            "            self.table.drop_stale(worker, number, attempt)\n            return",
            "            return",
        ),
    ),
    _bug(
        "recompute_on_suspicion",
        "a value is made again as soon as its worker is suspected",
        (
            _TABLE,
            "            value = self.values[number]\n            if not value.replicas:\n                self.lacks(value)\n\n    def end",
            "            value = self.values[number]\n            if not self.can_be_had(value):\n                value.replicas = ()\n                self.lacks(value)\n\n    def end",
        ),
    ),
    _bug(
        "recompute_what_may_not_run_again",
        "losses=0 is ignored for values",
        (
            _VALUES,
            '        if not value.fn.losses:\n            return "its function',
            '        if value.fn.losses < 0:\n            return "its function',
        ),
    ),
    _bug(
        "recompute_without_end",
        "losses over a job that makes a value again are not counted, so that it is made again for ever",
        (_VALUES, "        job.remembered().losses = 1\n", "        job.remembered().losses = -1000\n"),
    ),
    _bug(
        "keep_room_for_a_lost_value",
        "the room for a copy of a value that nobody has any more is kept",
        (
            _TRANSFERS,
            "            can_be_given = bool(value.replicas or value.origin)\n",
            "            can_be_given = True\n",
        ),
        suite="lost copies",
    ),
    _bug(
        "recompute_at_once",
        "a lost value is made again though nobody needs it",
        (_VALUES, "        return bool(value.asked or value.unreached) or any(", "        return True or any("),
        (
            _TABLE,
            "            if value.users or value.asked or value.unreached:\n                self.lacks(value)",
            "            self.lacks(value)",
        ),
    ),
    _bug(
        "never_make_inputs_again",
        "a job whose input is lost waits for ever",
        (
            _TABLE,
            "        self.unavailable[value.id] = value\n        self.unsettled = True",
            "        self.unsettled = bool(value.asked)\n        if value.asked:\n            self.unavailable[value.id] = value",
        ),
    ),
    _bug(
        "same_attempt_again",
        "a value is made again under the number of the attempt that was lost",
        (
            _VALUES,
            "job.age, job.attempt = value.age, max(value.attempt, value.last) + 1",
            "job.age, job.attempt = value.age, value.attempt",
        ),
    ),
    _bug(
        "start_without_one_input",
        "a job starts where its first input is, whatever of the others",
        (
            _TABLE,
            "        return [worker for worker in first if all(worker in replicas for replicas in others)]",
            "        return list(first)",
        ),
    ),
    _bug(
        "send_ahead_what_lacks_inputs",
        "quick jobs are sent ahead to workers that lack their inputs",
        (
            _NEAR,
            "            if self.table.missing(job.inputs, worker.id):\n                break",
            "            if self.table.missing(job.inputs, worker.id) < 0:\n                break",
        ),
        (_AHEAD, "        if cls.near not in (0, worker.id):\n            return False\n        held", "        held"),
    ),
    _bug(
        "forget_who_waits_for_a_copy",
        "a job is not queued again when its last input is there",
        (
            _TRANSFERS,
            "            if not job.data.lacks:\n                ready.append(job)",
            "            if job.data.lacks < 0:\n                ready.append(job)",
        ),
    ),
    _bug(
        "count_what_goes_out_never_down",
        "after two copies nothing goes out of a worker any more",
        (
            _TRANSFERS,
            "        self._going_out[transfer.source] -= transfer.weight\n",
            "        self._going_out[transfer.source] += 0\n",
        ),
    ),
    _bug(
        "send_everything_at_once",
        "all copies start at once, whatever else goes out of the source",
        (_TRANSFERS, "best, least = 0, AT_ONCE - transfer.weight\n", "best, least = 0, 1 << 30\n"),
        (_TRANSFERS, "if source and self._going_in.get(target, 0) + transfer.weight <= AT_ONCE:", "if source:"),
    ),
    _bug(
        "claim_for_ever",
        "what a job claimed at a worker stays claimed when it starts there",
        (_TRANSFERS, "                claimed[name] -= amount", "                claimed[name] -= 0"),
    ),
    _bug(
        "keep_replicas_of_the_lost",
        "a worker that is lost counts as having its values",
        (
            _VALUES,
            "            if worker.id in value.replicas:\n                table.gone(value",
            "            if worker.id in value.replicas and value.asked:\n                table.gone(value",
        ),
    ),
    _bug(
        "answer_once_for_all",
        "a value that was wanted is not given again when its giver is lost",
        (_TABLE, "            value.asked += value.givers.count(worker)\n", ""),
    ),
    _bug(
        "never_hear_of_the_suspect_again",
        "jobs whose inputs a suspected worker has are not queued when it is back",
        (
            _VALUES,
            "        self._queue_again(list(self._table.parked.values()), out)",
            "        self._queue_again([], out)",
        ),
    ),
    _bug(
        "drop_the_last_replica_too_early",
        "a job that asks for a value that was dropped keeps no interest while it waits to be tried again",
        (
            _STATE,
            "            if job.cancelled:\n                self.forget(job)\n            else:",
            "            if job.cancelled:\n                self.forget(job)\n            else:\n                self.values.needs_no_more(job)",
        ),
    ),
    _bug(
        "never_block_a_pair",
        "a pair that did not reach one another copies directly again at once",
        (_REACH, "self._blocked[source, target] = now + BLOCKED_S", "self._blocked[source, target] = now"),
    ),
    _bug(
        "block_the_other_way",
        "not the pair that failed is blocked, but the one from its target to its source",
        (_REACH, "self._blocked[source, target] = now", "self._blocked[target, source] = now"),
    ),
    _bug(
        "relay_what_could_go_directly",
        "a copy is relayed from the first source that is free",
        (_TRANSFERS, "        for number in direct or ready:", "        for number in ready:"),
    ),
    _bug(
        "fetch_from_where_nobody_serves",
        "a copy is direct if one of both ends has a data server",
        (
            _REACH,
            "self._workers[source].has_data and self._workers[target].has_data",
            "self._workers[source].has_data or self._workers[target].has_data",
        ),
    ),
    _bug(
        "confuse_attempts",
        "a copy of another attempt than the one that counts is taken for whole",
        (
            _TRANSFERS,
            "        if value is None or value.attempt != attempt or not value.is_needed:",
            "        if value is None or not value.is_needed:",
        ),
    ),
    _bug(
        "never_make_replicas_good",
        "a replica that goes with its worker is not replaced",
        (
            _VALUES,
            "        self._replication.look_at_all()\n        astray",
            "        astray",
        ),
    ),
    _bug(
        "forget_those_who_join",
        "a worker that joins gets no replica that is lacking",
        (
            _VALUES,
            "        self._transfers.is_due = True\n        self._replication.look_at_all()\n        for value",
            "        self._transfers.is_due = True\n        for value",
        ),
    ),
    _bug(
        "answer_before_replicas_are_there",
        "whoever asked for replicas hears so when they are asked for",
        (_REPLICATION, "        return not (coming or chosen or ", "        return True or ("),
    ),
    _bug(
        "one_replica_too_few",
        "a value has one replica less than was asked for",
        (_REPLICATION, "        if here >= value.copies:\n", "        if here >= max(1, value.copies - 1):\n"),
    ),
    _bug(
        "let_go_too_early",
        "a worker that drains is told to end before what only it has is elsewhere",
        (_LEAVING, "        return now >= leaving.until\n", "        return True\n"),
    ),
    _bug(
        "hold_for_ever",
        "a worker that drains is held although it owes nothing",
        (
            _LEAVING,
            "        if not owes:\n            return True\n",
            "        if not owes:\n            return False\n",
        ),
    ),
    _bug(
        "spare_what_is_kept",
        "the oldest replica is spare, too",
        (
            _SPARES,
            "        return tuple(worker for worker in value.replicas if worker not in kept)\n",
            "        return value.replicas if len(value.replicas) > len(kept) else ()\n",
        ),
    ),
    _bug(
        "spare_for_ever",
        "a replica that is the last one now stays spare",
        (_SPARES, "(worker in announced) != (worker in heard)", "(worker in announced) > (worker in heard)"),
    ),
    _bug(
        "give_away_to_those_who_leave",
        "values of a worker that leaves go to others that leave",
        (
            _LEAVING,
            "return worker.id not in self.workers and not worker.leaving and",
            "return",
        ),
    ),
    _bug(
        "give_nothing_away",
        "a replica at a worker that leaves counts as one that stays",
        (_LEAVING, "        return worker not in self.workers\n", "        return worker in self._workers\n"),
    ),
    _bug(
        "leave_to_each_worker",
        "a program gives a value of its own to each worker that lacks it, and not to one",
        (_TRANSFERS, "if is_free and not (until or value.first_to) else 0", "if is_free and not until else 0"),
    ),
    _bug(
        "leave_though_a_worker_has_it",
        "a program gives a value of its own though a worker has it",
        (
            _TRANSFERS,
            "        if transfer.value.origin and not transfer.value.replicas:\n            return self._origin_for",
            "        if transfer.value.origin:\n            return self._origin_for",
        ),
    ),
    _bug(
        "keep_own_values_for_ever",
        "a program never hears that nobody needs a value of its own any more",
        (_TABLE, "                self.freed.append(value.id)\n", ""),
    ),
    _bug(
        "never_ask_the_program_again",
        "a value of a program's own is not given again when its last replica is lost",
        (
            _TABLE,
            "        if value.origin and not value.replicas:\n            return True\n",
            "        if value.origin and not (value.replicas or value.why):\n            return True\n",
        ),
    ),
    _bug(
        "forget_who_waits_for_room",
        "a job without room for its inputs is never looked at again",
        (_ROOMS, "key=order) if self._is_ready(job, is_open)]", "key=order) if job is None]"),
        suite="stores",
    ),
    _bug(
        "give_up_what_has_room_elsewhere",
        "a job whose value found no room fails though another worker could hold it",
        (_ROOMS, "job.fn.losses > 0 and bool(self._could_give(job, size))", "False"),
        suite="outputs",
    ),
    _bug(
        "run_again_where_no_room_was_found",
        "a job runs again at the worker that had no room for its value",
        (_ROOMS, "        is_tried = tries is not None and worker.id in tries.workers", "        is_tried = False"),
        suite="outputs",
    ),
    _bug(
        "wait_for_each_others_room",
        "a job does not run once more where its value has room by now, though its inputs have none elsewhere",
        (_ROOMS, "        for job in tried:", "        for job in tried[:0]:"),
        suite="outputs",
    ),
    _bug(
        "run_again_what_may_not",
        "a job whose function allows no loss runs again elsewhere for room",
        (_ROOMS, "job.parent is None and job.fn.losses > 0 and", "job.parent is None and"),
        suite="outputs",
    ),
    _bug(
        "wait_for_room_that_another_has_not",
        "a job waits for the room of a worker that could never have its inputs, too",
        (
            _ROOMS,
            "        sizes = [size, *(self._table.values[number].size for number in job.inputs)]",
            "        sizes = [size]",
        ),
        suite="outputs",
    ),
    _bug(
        "wait_for_consumers_that_wait",
        "jobs wait at crowded workers though no consumer runs or could start",
        (
            _CONSUMERS,
            "        return any(self._is_active(user, now) for user in self._table.last_users())",
            "        return True",
        ),
        suite="stores",
    ),
    _bug(
        "keep_room_for_nobody",
        "younger jobs take the room for which the oldest waits",
        (
            _ROOMS,
            "        if (oldest is None or order(job) < order(oldest)) and self._will_have_room(worker, job):",
            "        if job is None:",
        ),
        suite="stores",
    ),
    _bug(
        "send_where_there_is_no_room",
        "inputs are sent to workers that have no room for them, again and again",
        (
            _ROOMS,
            "        if worker.over or self.free(worker, job.inputs) < lacking:",
            "        if worker.over:",
        ),
        suite="stores",
    ),
    _bug(
        "count_room_after_a_failed_transfer",
        "the head counts the room of a copy that has ended as taken",
        (
            _TRANSFERS,
            "        self.coming[transfer.target] -= transfer.size\n",
            "        self.coming[transfer.target] -= transfer.size * (transfer.value.id in self.table.values)\n",
        ),
        suite="stores",
    ),
    _bug(
        "never_make_room",
        "values that are kept do not make way for a job that has room nowhere",
        (_VALUES, "relocations.make_room(jobs.values(), now)", "relocations.make_room([], now)"),
        suite="relocations",
    ),
    _bug(
        "rest_though_there_is_no_room",
        "classes near a worker rest though others have taken the room that they were to have",
        ("scheduler/planning/_dormant.py", "        found = self._of_room.get(worker.id)\n", "        found = None\n"),
        suite="rests",
    ),
    _bug(
        "wait_in_the_queue_for_a_pair_that_rests",
        "jobs wait behind one whose inputs cannot be copied for now",
        (
            _TRANSFERS,
            "        return self.rules < ASIDE_SCHEMA or not self.input_rests(job, worker.id, now)",
            "        return True",
        ),
        suite="failed copies",
    ),
    _bug(
        "send_a_crowd_to_an_idle_worker",
        "all jobs near a worker with a free slot are sent there while their inputs are on their way",
        (_TRANSFERS, "        if self.rules < ASIDE_SCHEMA:\n            return True\n", "        return True\n"),
        suite="failed copies",
    ),
    _bug(
        "take_the_room_that_is_kept",
        "copies for safety take the room that the oldest waiting job is to have",
        (_TRANSFERS, "        if oldest is None or self.rules < KEPT_SCHEMA:\n", "        if True:\n"),
        suite="kept room",
    ),
    _bug(
        "keep_room_from_the_inputs_that_it_is_kept_for",
        "an input of the oldest waiting job waits for the room that is kept for it",
        (_TRANSFERS, "oldest is not None and value.id in oldest.inputs\n", "oldest is not None and False\n"),
        suite="kept room",
    ),
    _bug(
        "count_inputs_that_come_twice",
        "inputs on their way to where room is kept for them take the room of other values",
        (_TRANSFERS, "its_own - self.rooms.shortage(", "-self.rooms.shortage("),
        suite="kept room",
    ),
    _bug(
        "copy_before_it_is_known_what_is_spare",
        "copies for safety take room that is to come of replicas which are spare no more",
        (_VALUES, "        if table.moved and self._transfers.rules >= KEPT_SCHEMA:", "        if not table:"),
        suite="kept room",
    ),
    _bug(
        "keep_room_for_a_job_that_has_ended",
        "what exceeds a store does not move to where room was kept for a job that has ended",
        (_ROOMS, "self.claimant(worker) is not None)\n", "True)\n"),
        suite="kept room",
    ),
    _bug(
        "wait_for_room_that_is_kept_no_longer",
        "copies for safety are not asked for when the job for which room was kept has gone elsewhere",
        (_VALUES, "transfers.rooms.claims and table.awaiting_room:\n", "transfers.rooms.claims and not table:\n"),
        suite="kept room",
    ),
    _bug(
        "add_up_the_room_of_tiers",
        "inputs have room where memory and disk have their bytes together, and neither has enough for one of them",
        (_ROOMS, "(self._fit_whole(worker, sizes, -lacking) and not", "(not"),
        suite="whole inputs",
    ),
    _bug(
        "send_an_input_again_that_was_refused",
        "an input is sent again where it was just refused, and nothing makes way for it",
        (_ROOMS, "sizes, -lacking) and not self._is_refused(worker, job))", "sizes, -lacking))"),
        suite="whole inputs",
    ),
    _bug(
        "keep_a_refusal_while_no_job_waits_outside_its_queue",
        "an input is not sent again where it was refused, if its jobs wait in queues for that worker",
        (_ROOMS, "bool(self.parked or (self.refusals and self.rules >= LAPSE_SCHEMA))", "bool(self.parked)"),
        suite="whole inputs",
    ),
    _bug(
        "wait_for_room_where_inputs_have_none",
        "a job waits for the worker that has room for its value, and has none for its inputs",
        (_ROOMS, "if self.shortage(one, job) <= 0)\n", "if job)\n"),
        suite="whole inputs",
    ),
    _bug(
        "pack_large_inputs_alone",
        "only the inputs of a job are packed into memory and onto disk, without the values that are kept there",
        (_ROOMS, " + [size for size, _ in large]\n", " + [size for size, _ in large[:0]]\n"),
        suite="whole inputs",
    ),
    _bug(
        "keep_room_for_what_is_made_again",
        "a job on its way keeps its room while an input is made again, by a job that may need this room",
        (_VALUES, "users if user.data is not None and user.data.target]", "users if user.data is None]"),
        suite="rooms of inputs",
    ),
    _bug(
        "keep_what_was_moved",
        "a value that has made way is kept where it was all the same, beside where it has come to",
        (
            _RELOCATIONS,
            "        if self._transfers.rooms.waits(self.moves[number, source].job):\n",
            "        if source == target:\n",
        ),
        (_RELOCATIONS, "            return may[0]\n", "            return 0\n"),
        suite="relocations",
    ),
)
