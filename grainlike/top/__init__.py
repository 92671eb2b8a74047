"""Screen of a head that stays open: `grainlike top`.

Answers: which letter and colour a function has (`_marks`), what the lists show (`_tables`), what the map of cores shows
(`_cores`), how both are drawn (`_lists`, `_core_map`), what is shown of one job (`_job_screen`), and the application of
all that (`_app`), which is textual's.

Never decides what is so: that is `live`'s and the head's. Texts of others are drawn as they are, never as markup.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.top._app import TopApp
    from grainlike.top._tables import Texts

__all__ = ["Texts", "TopApp"]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(__name__, {"TopApp": "_app", "Texts": "_tables"})
