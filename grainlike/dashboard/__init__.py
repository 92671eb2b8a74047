"""Dashboard: pages for a browser that show a head, its workers and its jobs, live and read-only.

Answers: who may see them (`_access_control`), what a head says now (`_feed`), how that is drawn up for pages
(`_picture`), what one page is sent and how much of it (`_page`, `_budget`), what a page asks for once (`_answers`),
where all of it is served (`_app`, `_server`), and on how many connections (`_connections`). The pages themselves are
files in `static`, for browsers to load as they are.

Never changes anything at a head, and holds no rule about jobs: it shows what a `HeadClient` is told. It takes the
packages of `grainlike[dashboard]`, and asyncio.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.dashboard._access_control import AccessControl
    from grainlike.dashboard._address import DEFAULT_ADDRESS, read_address
    from grainlike.dashboard._app import make_app
    from grainlike.dashboard._feed import HeadFeed, in_process
    from grainlike.dashboard._server import Dashboard

__all__ = ["DEFAULT_ADDRESS", "AccessControl", "Dashboard", "HeadFeed", "in_process", "make_app", "read_address"]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "DEFAULT_ADDRESS": "_address",
            "Dashboard": "_server",
            "AccessControl": "_access_control",
            "HeadFeed": "_feed",
            "in_process": "_feed",
            "make_app": "_app",
            "read_address": "_address",
        },
    )
