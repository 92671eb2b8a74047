"""Live views: one that cannot be shown any more is given up, and the others go on."""

from __future__ import annotations

from typing import Any

import IPython.display
import pytest

from grainlike import Cores, delayed
from grainlike.eventloop import here
from grainlike.executor._live_views import LiveViews
from grainlike.graph import Delayed, node_behind


class Handle:
    def __init__(self, shown: list[str]) -> None:
        self._shown = shown

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self._shown.append(data["text/html"])


@delayed
def bad() -> None: ...


@delayed
def good() -> None: ...


@pytest.mark.asyncio
async def test_a_view_that_raises_is_given_up_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    updated: list[str] = []
    state = ["lazy"]

    def shown(placeholder: Delayed[Any]) -> str:
        name = node_behind(placeholder).function.name
        if name == "bad" and state[0] != "lazy":
            raise ValueError("no text")
        return f"{name} {state[0]}"

    monkeypatch.setattr(IPython.display, "display", lambda *_, **__: Handle(updated))
    monkeypatch.setattr(Delayed, "_repr_html_", shown)
    loop_id = here()
    assert loop_id is not None
    views = LiveViews(loop_id, lambda node, call: None)
    nodes = [node_behind((function @ Cores(1))()) for function in (bad, good)]
    for node in nodes:
        views.show(node)
    state[0] = "running"
    views._turn()
    assert updated == ["good running"]
    assert [view.node for view in views._views] == [nodes[1]]
    assert [record.getMessage() for record in caplog.records] == [
        "the view of bad changes no more: ValueError('no text')"
    ]
    views._timer.cancel()
