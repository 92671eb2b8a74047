"""What was asked for and what was taken, side by side."""

import pytest

from grainlike_worker.daemon._runner_supervisor import beside

MI = 2**20


@pytest.mark.parametrize(
    ("asked", "taken", "told"),
    [
        (200 * MI, 210_763_776, ("200Mi", "201Mi")),
        (200 * MI, 200 * MI + 4096, ("200Mi", "200.004Mi")),
        (1_000_000, 5_000_000, ("1M", "5M")),
        (1536 * MI, 2**31, ("1536Mi", "2048Mi")),
        (12_345, 23_456, ("12345", "23456")),
        (8 * 2**30, 8 * 2**30, ("8Gi", "8Gi")),
    ],
)
def test_amounts_beside_each_other_differ_where_they_do(asked: int, taken: int, told: tuple[str, str]) -> None:
    assert beside(asked, taken) == told
