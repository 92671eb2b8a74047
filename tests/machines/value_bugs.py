# ruff: noqa: E501 - lines of the sources stand here as they are
"""Bugs made by hand in what the head's mind does with values that stay at workers; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import HEAD, Bug, Change

__all__ = ["VALUE_BUGS", "VALUE_SUITES"]

VALUE_SUITES = {"values": "tests/simulation/test_value_worlds.py::test_no_promise_is_broken"}

_TABLE, _VALUES = "scheduler/values/_table.py", "scheduler/values/_values.py"
_TRANSFERS, _HOMES, _NEAR = (
    "scheduler/values/_transfers.py",
    "scheduler/values/_homes.py",
    "scheduler/planning/_near.py",
)
_HEAD, _STATE, _ATTEMPTS = "scheduler/_head.py", "scheduler/_state.py", "scheduler/_attempts.py"
_AHEAD = "scheduler/planning/_ahead.py"


def _bug(name: str, breaks: str, *changes: tuple[str, str, str]) -> Bug:
    return Bug(name, HEAD, breaks, "values", tuple(Change(*change) for change in changes))


VALUE_BUGS: tuple[Bug, ...] = (
    _bug(
        "drop_when_the_owner_lets_go",
        "a value goes though jobs that have not ended need it",
        (
            _TABLE,
            "            value.owned = False\n            self.look_at(value)",
            "            value.owned = False\n            self.drop(value, value.replicas)",
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
            _NEAR,
            "        self._transfers.unclaim(job)\n\n    def has_inputs",
            "        self._transfers.unclaim(job)\n        self.table.needs_no_more(job)\n\n    def has_inputs",
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
        "losses=0 is not heeded for values",
        (
            _VALUES,
            '        if not value.fn.losses:\n            return "its function',
            '        if value.fn.losses < 0:\n            return "its function',
        ),
    ),
    _bug(
        "recompute_at_once",
        "a lost value is made again though nobody needs it",
        (_VALUES, "        return bool(value.asked) or any(", "        return True or any("),
        (
            _TABLE,
            "            if value.users or value.asked:\n                self.lacks(value)",
            "            self.lacks(value)",
        ),
    ),
    _bug(
        "never_make_inputs_again",
        "a job whose input is lost waits for ever",
        (
            _TABLE,
            "        self.bare[value.id] = value\n        self.stirred = True",
            "        self.stirred = bool(value.asked)\n        if value.asked:\n            self.bare[value.id] = value",
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
        (_TRANSFERS, "best, least = 0, AT_ONCE - transfer.weight + 1", "best, least = 0, 1 << 30"),
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
)
