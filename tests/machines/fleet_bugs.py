"""Bugs made by hand in the fleet scheduler; with any of them, simulated fleets must break a rule; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import Bug, Change

__all__ = ["FLEET_BUGS", "FLEET_SUITES"]

FLEET_SUITES = {"fleet": "tests/simulation/test_fleet_worlds.py", "blocks": "tests/unit/fleet"}

_SIZING, _LISTING, _ENDINGS = "fleet/_sizing.py", "fleet/_listing.py", "fleet/_endings.py"
_SUBMISSIONS, _WORKERS, _FLEET = "fleet/_submissions.py", "fleet/_workers.py", "fleet/_fleet.py"
_BLOCK = "fleet/_block.py"

_CLOSES_ALL = """event.words)
    for block in turn.records.numbers(event.system).values():
        _unlisted(turn, block, turn.now)


"""
_LOWEST_NUMBER = "    records.last_number = 1 + max((block.number for block in records.blocks.values()), default=0)\n"
_LATE_WORKERS_STAY = (_WORKERS, "    if block.leave_reason:\n        turn.do(", "    if not block:\n        turn.do(")


def _bug(name: str, breaks: str, *changes: tuple[str, str, str], suite: str = "fleet") -> Bug:
    return Bug(name, "fleet", breaks, suite, tuple(Change(*change) for change in changes))


FLEET_BUGS: tuple[Bug, ...] = (
    _bug(
        "one_block_too_many",
        "a pool has more workers than its max",
        (_SIZING, "if total.all + pool.nodes > pool.max:", "if total.all > pool.max:"),
    ),
    _bug(
        "leaving_blocks_count_for_nothing",
        "while blocks end, a pool has more workers than its max",
        (_SIZING, "if total.all + pool.nodes > pool.max:", "if total.staying + pool.nodes > pool.max:"),
    ),
    _bug(
        "price_of_live_blocks_forgotten",
        "more core-hours are spent than the budget has",
        (_SIZING, "state.spent + sum(block.price(cores) for block in total.blocks)", "state.spent"),
    ),
    _bug(
        "time_taken_from_the_submission_on_is_not_counted",
        "more core-hours are spent than the budget has",
        (_BLOCK, "began = max(self.submitted_at, self.idle_before)", "began = now"),
    ),
    _bug(
        "the_heads_absence_is_the_blocks_fault",
        "blocks whose workers find no head pause their pool",
        (_ENDINGS, "elif not block.leave_reason and not block.headless:", "elif not block.leave_reason:"),
    ),
    _bug(
        "absence_is_never_over",
        "blocks that began under the next head, and failed, are not counted",
        (_LISTING, "        block.headless = False\n", ""),
    ),
    _bug(
        "stuck_jobs_are_waited_for",
        "jobs that their batch system never starts keep the place of others",
        (_LISTING, '    if row.state == "stuck":\n        _give_up(turn, block)\n        return\n', ""),
    ),
    _bug(
        "look_once",
        "a block that was taken late belongs to nobody, or is submitted again",
        (_SUBMISSIONS, "LOOKS = 2", "LOOKS = 1"),
        suite="blocks",  # in worlds, what arrives later is ended by its name, or its workers are told to leave
    ),
    _bug(
        "late_arrivals_are_strangers",
        "a block that was taken after it was given up belongs to nobody",
        (_LISTING, "elif number <= turn.records.last_number:", "elif False:"),
        suite="blocks",  # in worlds, its workers are told to leave as soon as they join
    ),
    _bug(
        "leave_superfluous_jobs_alone",
        "a submission that was taken twice leaves a job that belongs to no block",
        (_LISTING, "    if superfluous:\n", "    if False:\n"),
    ),
    _bug(
        "submit_in_silence",
        "blocks are submitted while nobody can say what there is",
        (_SIZING, "failing_since is not None:\n        return s", "failing_since == 0:\n        return s"),
    ),
    _bug(
        "silence_is_the_end",
        "a listing that fails closes all blocks",
        (_LISTING, "event.words)\n\n", _CLOSES_ALL),
    ),
    _bug(
        "listed_before_it_was_taken",
        "an answer of before closes a block that was taken since",
        (_LISTING, "elif asked > block.accepted_at:", "else:"),
        (_LISTING, "    if superfluous:\n", "    if False:\n"),
    ),
    _bug(
        "idle_is_whoever_was",
        "workers with jobs are made to leave for idleness",
        (_WORKERS, "        block.connected[event.node] = None\n        block.worked", "        block.worked"),
    ),
    _bug(
        "one_idle_worker_is_enough",
        "workers with jobs are made to leave, as another one of their block is idle",
        (_BLOCK, "and None not in self.connected.values() and", "and any(self.connected.values()) and"),
    ),
    _bug(
        "early_deaths_do_not_count",
        "blocks that end at once are submitted for ever",
        (_ENDINGS, "    state.deaths += 1\n", "    state.deaths += 0\n"),
    ),
    _bug(
        "a_pause_is_forgotten",
        "blocks that end at once are submitted for ever",
        (_SIZING, "    if state.paused:\n        return f", "    if not state:\n        return f"),
    ),
    _bug(
        "an_end_is_told_once",
        "a block whose end its batch system did not hear is left",
        (
            _ENDINGS,
            "    if turn.due(since + NATIVE_END_S):",
            "    if block.end_asked_at is None and turn.due(since + 30):",
        ),
        suite="blocks",  # worlds see it once in two hundred: workers of such a block leave as soon as they join
    ),
    _bug(
        "an_id_that_comes_late_is_not_ended",
        "a block that was withdrawn before its answer came is left",
        (_SUBMISSIONS, "    if block.leave_reason and not block.connected:\n        end_natively(turn, block)\n", ""),
        (_ENDINGS, "if quiet is None or not block.native:", "if quiet is None or block.end_asked_at is None:"),
        _LATE_WORKERS_STAY,
    ),
    _bug(
        "a_hold_never_ends",
        "jobs wait for ever after a refusal by a limit",
        (_ENDINGS, "max(state.held_until, turn.now + wait)", "turn.now + 1e9"),
    ),
    _bug(
        "one_machine_is_all",
        "a pool is paused as one of its machines refuses a block",
        (_SUBMISSIONS, "    if event.elsewhere:\n", "    if False:\n"),
    ),
    _bug(
        "one_machine_holds_all",
        "a pool waits half a minute as one of its machines refuses a block",
        (
            _SUBMISSIONS,
            "    if event.elsewhere:\n        state.reason = event.words",
            "    if event.elsewhere:\n        hold(turn, state, event.words)",
        ),
        suite="blocks",
    ),
    _bug(
        "blocks_stay_with_the_way_of_before",
        "blocks are left to a login node that does not work any more",
        (_LISTING, "            block.system = event.system\n", "            pass\n"),
        suite="blocks",
    ),
    _bug(
        "any_listing_takes_blocks_over",
        "blocks of one batch system are taken for those of another",
        (_LISTING, 'row.native == block.native != "" for row', "True for row"),
        suite="blocks",
    ),
    _bug(
        "pending_blocks_of_a_pool_that_goes_stay",
        "pending blocks that are withdrawn, or whose pool goes, stay in the batch queue",
        (_ENDINGS, "    if not block.connected:\n        end_natively(turn, block)\n", ""),
        (_ENDINGS, "        return max(block.leaving_since, block.away_since or 0.0)", "        return None"),
        _LATE_WORKERS_STAY,
    ),
    _bug(
        "those_who_do_not_come_back_are_awaited",
        "a head that begins again keeps blocks whose workers are gone",
        (_FLEET, "            block.away_since = turn.now\n", "            pass\n"),
        (_LISTING, "    if block.connected:\n        block.reason", "    if block.joined:\n        block.reason"),
    ),
    _bug(
        "crippled_blocks_keep_their_place",
        "a gang waits for ever beside a block that has lost a worker",
        (_SIZING, "crippled = len(block.connected) < block.nodes", "crippled = False"),
        suite="blocks",  # worlds see it once in two thousand
    ),
    _bug(
        "numbers_come_again",
        "a label is submitted twice",
        (_SUBMISSIONS, "    records.last_number += 1\n", _LOWEST_NUMBER),
    ),
    _bug(
        "answers_on_their_way_are_awaited_for_ever",
        "a head that begins again neither finds nor forgets what was being submitted",
        (_FLEET, "        if block.answered_at is None:\n", "        if not block:\n"),
        (_SUBMISSIONS, "    elif turn.due(block.submitted_at + ANSWER_S):\n", "    elif not block:\n"),
    ),
)
