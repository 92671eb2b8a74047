"""State of a head as its viewers see it: workers, who runs on which core, and how fast jobs end.

Answers: what is so by the updates that have come (`_state`), and how many jobs ended in the last seconds
(`_throughput`). `top`, the dashboard and `--watch` show it, and hold no rule of their own.

Never asks a head, waits, or looks at a clock: times are those of the updates.
"""

from grainlike.live._state import LiveState, Slot
from grainlike.live._throughput import Throughput

__all__ = ["LiveState", "Slot", "Throughput"]
