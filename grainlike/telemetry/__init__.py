"""Telemetry of heads and jobs for other systems: events as JSON lines, metrics for Prometheus, spans.

Answers: how events get into a file whatever its disk does (`_event_file`), what a scrape is answered (`_metrics`, over
HTTP by `_metrics_server`), and who else may watch the jobs of a program (`_observers`, told by `_observed_runner`, with
`otel` for OpenTelemetry).
Nothing here is loaded unless it is asked for.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.telemetry._event_file import EventFile, EventWriter
    from grainlike.telemetry._metrics import OPENMETRICS, PROMETHEUS, metrics_text, render_metrics
    from grainlike.telemetry._metrics_server import MetricsServer, parse_endpoint
    from grainlike.telemetry._observed_runner import ObservedRunner
    from grainlike.telemetry._observers import CallEnded, CallObserver, CallSubmitted, find_observers

__all__ = [
    "OPENMETRICS",
    "PROMETHEUS",
    "CallEnded",
    "CallObserver",
    "CallSubmitted",
    "EventFile",
    "EventWriter",
    "MetricsServer",
    "ObservedRunner",
    "find_observers",
    "metrics_text",
    "parse_endpoint",
    "render_metrics",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "CallEnded": "_observers",
            "CallObserver": "_observers",
            "CallSubmitted": "_observers",
            "EventFile": "_event_file",
            "EventWriter": "_event_file",
            "MetricsServer": "_metrics_server",
            "OPENMETRICS": "_metrics",
            "ObservedRunner": "_observed_runner",
            "find_observers": "_observers",
            "PROMETHEUS": "_metrics",
            "metrics_text": "_metrics",
            "parse_endpoint": "_metrics_server",
            "render_metrics": "_metrics",
        },
    )
