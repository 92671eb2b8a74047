"""`journal check` and `journal export`: the content of a journal's directory, and whether it is whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from grainlike.cli._exits import FAILED, OK, REFUSED
from grainlike.cli._words import as_plain, bytes_text, escaped, print_jobs, print_json, print_table
from grainlike.errors import JournalError
from grainlike.journal import FileReport, Survey, survey

__all__ = ["check_journal", "export_journal"]


def check_journal(directory: Path, *, as_json: bool) -> int:
    """Print what each file holds, and return 1 if there is damage. A head may be writing the journal meanwhile."""
    try:
        found = survey(directory)
    except JournalError as error:
        print(f"grainlike: {escaped(str(error))}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return REFUSED
    if not found.reports:
        raise typer.BadParameter(f"there is no journal in {directory}")
    if as_json:
        print_json(_as_plain(found))
    else:
        _print(found)
    return FAILED if found.damage else OK


def export_journal(directory: Path, *, as_json: bool) -> int:
    """Print the jobs that a head had left when it ended. For one that runs, use `grainlike jobs`."""
    from grainlike.head.durable import exported

    try:
        if not survey(directory).reports:
            raise typer.BadParameter(f"there is no journal in {directory}")
        jobs = exported(directory)
    except JournalError as error:
        print(f"grainlike: {escaped(str(error))}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return REFUSED
    if as_json:
        print_json({"jobs": [as_plain(job) for job in jobs], "total": len(jobs)})
    else:
        print_jobs(jobs)
    return OK


def _print(found: Survey) -> None:
    rows = [(one.path.name, f"{one.records:,}", bytes_text(one.size), _words(found, one)) for one in found.reports]
    print_table(["file", "records", "size", ""], rows)
    image = f"the image of segment {found.image.number}, and " if found.image else ""
    whole = f"sound: {image}{found.records:,} records to be replayed"
    print(escaped(f"damaged: {found.refusal()}" if found.damage else whole))  # noqa: T201


def _words(found: Survey, report: FileReport) -> str:
    match _state(found, report):
        case "torn":
            return f"torn at byte {report.end:,}, as by a crash; or it is being written"
        case "damaged":
            return f"damaged at byte {report.end:,}: {report.problem}"
        case "old":
            return "of before the image: not needed"
        case "behind":
            return "behind the damage"
    return "sound"


def _state(found: Survey, report: FileReport) -> str:
    if report in found.old:
        return "old"
    if report.problem:
        return "damaged"
    if report in found.behind:
        return "behind"
    return "sound" if report.sound else "torn"


def _as_plain(found: Survey) -> dict[str, Any]:
    damage = found.damage
    return {
        "sound": damage is None,
        "image": found.image.number if found.image else None,
        "records": found.records,
        "damage": damage and {"file": damage.path.name, "offset": damage.offset, "problem": damage.problem},
        "files": [_file_as_plain(found, report) for report in found.reports],
    }


def _file_as_plain(found: Survey, report: FileReport) -> dict[str, Any]:
    return {
        "file": report.path.name,
        "state": _state(found, report),
        "records": report.records,
        "first": report.header.first if report.header else None,
        "bytes": report.size,
        "sound_bytes": report.end,
        "problem": report.problem,
    }
