"""Graphs whose jobs have names: built, run, watched and reported on, in parts too."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.dag._callbacks import Callbacks
    from grainlike.dag._dag import Dag
    from grainlike.dag._report import DagReport, JobReport

__all__ = [
    "Callbacks",
    "Dag",
    "DagReport",
    "JobReport",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Callbacks": "_callbacks",
            "Dag": "_dag",
            "DagReport": "_report",
            "JobReport": "_report",
        },
    )
