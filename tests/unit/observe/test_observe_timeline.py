"""The picture shows every span where and when it was, and reads on any background."""

from itertools import pairwise
from typing import NamedTuple
from xml.etree import ElementTree as Xml

import pytest

from grainlike.observe import Lane, Span, timeline

SVG = "{http://www.w3.org/2000/svg}"
N1, N2 = Lane("n1", 0), Lane("n1", 1)


class Bar(NamedTuple):
    tip: str
    x: float
    y: float
    width: float
    height: float
    fill: str


def span(began: float, ended: float, *lanes: Lane, kind: str = "fit", **other: object) -> Span:
    return Span(lanes or (N1,), began, ended, kind, **other)  # type: ignore[arg-type]


def drawn(*spans: Span, **options: object) -> Xml.Element:
    return Xml.fromstring(timeline(spans, title="Run", **options))  # type: ignore[arg-type]


def bars(picture: Xml.Element) -> list[Bar]:
    found = []
    for group in picture.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        numbers = [float(rect.attrib[name]) for name in ("x", "y", "width", "height")]
        found.append(Bar(group.findtext(f"{SVG}title") or "", *numbers, rect.attrib["fill"]))
    return found


def texts(picture: Xml.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def test_bars_lie_in_time_from_left_to_right() -> None:
    first, second, third = bars(drawn(span(100, 102), span(102, 103), span(106, 110)))
    assert first.x < second.x < third.x
    assert first.width == pytest.approx(2 * second.width, rel=0.02)
    assert (third.x - first.x) / (second.x - first.x) == pytest.approx(3, rel=1e-3)
    assert third.x + third.width < 1120


def test_each_core_has_its_row_in_order_of_number() -> None:
    far = Lane("n1", 10)
    picture = drawn(span(0, 1, far), span(0, 1, N2), span(0, 1, N1))
    assert [text for text in texts(picture) if text.startswith("core")] == ["core 0", "core 1", "core 10"]
    tops = {bar.tip.splitlines()[1]: bar.y for bar in bars(picture)}
    assert tops["n1, core 0"] < tops["n1, core 1"] < tops["n1, core 10"]


def test_workers_are_named_when_there_are_several() -> None:
    assert "n1" not in texts(drawn(span(0, 1)))
    assert {"n1", "n2"} <= set(texts(drawn(span(0, 1), span(0, 1, Lane("n2", 0)))))


def test_a_wide_job_is_one_bar_over_neighbouring_rows() -> None:
    (wide,) = bars(drawn(span(0, 1, N1, N2)))
    (narrow,) = bars(drawn(span(0, 1, N1)))
    assert wide.height > 2 * narrow.height


def test_a_wide_job_on_cores_apart_is_two_bars() -> None:
    assert len(bars(drawn(span(0, 1, N1, Lane("n1", 2)), lanes=[N2]))) == 2


def test_an_idle_core_is_shown() -> None:
    shown = texts(drawn(span(0, 4), span(1, 4, N2), lanes=[Lane("n1", 2)]))
    assert {"core 0", "core 1", "core 2"} <= set(shown)
    assert [text for text in shown if text.endswith("%")] == ["100%", "75%", "0%"]


def test_jobs_at_the_same_time_on_one_core_do_not_hide_each_other() -> None:
    found = sorted(bars(drawn(span(0, 4), span(1, 3), span(2, 4), span(4, 8))), key=lambda bar: bar.y)
    assert len({bar.y for bar in found}) == 3
    assert all(upper.y + upper.height <= lower.y for upper, lower in pairwise(found) if upper.y != lower.y)


def test_an_overlap_below_a_pixel_is_no_overlap() -> None:
    first, second = bars(drawn(span(0, 5.0001), span(5, 10)))
    assert first.y == second.y


def test_colours_are_of_kinds_and_deeper_for_stronger() -> None:
    pale, deep, other = bars(
        drawn(span(0, 1, strength=0.1), span(1, 2, strength=0.9), span(2, 3, kind="final", strength=0.9))
    )
    assert len({pale.fill, deep.fill, other.fill}) == 3
    assert lightness(pale.fill) > lightness(deep.fill)
    assert lightness(bars(drawn(span(0, 1, strength=0)))[0].fill) < lightness("#ffffff") - 60


def lightness(colour: str) -> int:
    return sum(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def test_what_was_not_pinned_is_striped_and_said() -> None:
    striped = timeline([span(0, 1, pinned=False)], title="Run")
    assert striped.count("url(#loose)") == 1
    assert "not pinned" in striped
    assert "not pinned" not in timeline([span(0, 1)], title="Run")


def test_the_legend_names_the_kinds_once_and_the_note() -> None:
    shown = texts(
        drawn(span(0, 1, kind="SVC"), span(1, 2, kind="SVC"), span(2, 3, kind="trees"), note="deeper: better")
    )
    assert shown.count("SVC") == 1
    assert {"trees", "deeper: better"} <= set(shown)


def test_the_ground_is_its_own_and_the_text_dark() -> None:
    picture = drawn(span(0, 1), subtitle="sub")
    ground = picture.find(f"{SVG}rect")
    assert ground is not None
    assert ground.attrib["fill"] == "#ffffff"
    assert float(ground.attrib["width"]) >= float(picture.attrib["width"]) - 1
    assert all(lightness(text.attrib["fill"]) < 400 for text in picture.iter(f"{SVG}text"))


def test_text_is_escaped() -> None:
    picture = Xml.fromstring(timeline([span(0, 1, kind="<k>", label='a & "b"')], title="<t>", note="<n>"))
    assert picture.findtext(f"{SVG}title") == "<t>"
    assert bars(picture)[0].tip.startswith('a & "b"')


def test_many_cores_get_lower_rows() -> None:
    picture = drawn(*(span(0, 1, Lane("n1", core)) for core in range(128)))
    assert float(picture.attrib["height"]) < 1600
    assert len(bars(picture)) == 128


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        timeline([], title="Run")
