"""What other systems are told of a head and of jobs: events as JSON lines, metrics for Prometheus, spans.

Answers: how events get into a file whatever its disk does (`_event_file`), what a scrape is answered (`_metrics`, over
HTTP by `_metrics_server`), and who else may watch the jobs of a program (`_observers`, with `otel` for OpenTelemetry).
Nothing here is loaded unless it is asked for.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.telemetry._event_file import EventFile, EventWriter

__all__ = [
    "EventFile",
    "EventWriter",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "EventFile": "_event_file",
            "EventWriter": "_event_file",
        },
    )
