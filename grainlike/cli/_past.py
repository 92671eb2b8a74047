"""Queries to a running head about jobs that have ended: `report`, `trace`."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path

from grainlike.cli._exits import OK
from grainlike.cli._words import print_json, seconds
from grainlike.client import HeadClient
from grainlike.head.server import spans_from_rows
from grainlike.observe import Depth, trace
from grainlike.system import LateFile
from grainlike.wire import AskReport, ReportIs, SpanRow

__all__ = ["show_report", "write_trace"]


async def show_report(caller: HeadClient, *, as_json: bool) -> int:
    """Print how jobs have ended."""
    found = await caller.ask(AskReport(0), ReportIs)
    if as_json:
        print_json(asdict(found.totals) | {"unended": found.unended})
        return OK
    print(f"{found.totals}, since this head was first started")  # noqa: T201 - a command line speaks
    print(f"they ran for {seconds(found.totals.run_seconds)} in all; {found.unended:,} have not ended")  # noqa: T201
    return OK


async def write_trace(caller: HeadClient, path: Path) -> int:
    """Draw what the head has recorded."""
    spans: list[SpanRow] = []
    depths: list[Depth] = []
    with LateFile(path) as file:
        async with aclosing(caller.trace()) as pieces:
            async for piece in pieces:
                spans.extend(piece.spans)
                depths.extend(Depth(*depth) for depth in piece.depths)
        file.write(trace(spans_from_rows(spans), depths))
    print(f"{path}: what ran in {len(spans):,} attempts; open it in ui.perfetto.dev")  # noqa: T201
    return OK
