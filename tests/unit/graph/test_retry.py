"""What a user may say of further attempts, and what is refused where it is written."""

import pickle

import pytest

from grainlike import Retry, delayed
from grainlike.graph import Options


def test_a_number_is_a_retry_that_says_nothing_else():
    assert Options(retries=2).retry == Retry(2)
    assert Options().retry == Retry(0)
    assert delayed(retries=Retry(1, on=OSError))(len).function.options.retry.kinds == (OSError,)


@pytest.mark.parametrize(
    ("retry", "kinds"),
    [(Retry(), {OSError, TimeoutError, ValueError}), (Retry(on=(OSError, LookupError)), {OSError, TimeoutError})],
)
def test_subclasses_are_covered(retry, kinds):
    assert {kind for kind in (OSError, TimeoutError, ValueError) if retry.covers(kind)} == kinds


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [(None, None), (2, (2.0, 1.0, 2.0)), (0, (0.0, 1.0, 0.0)), ((0.5, 2, 60), (0.5, 2.0, 60.0))],
)
def test_the_waits(backoff, waits):
    assert Retry(backoff=backoff).waits == waits


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"times": -1}, ValueError, "times= must be at least 0"),
        ({"times": 1.5}, TypeError, "times= takes an integer"),
        ({"times": True}, TypeError, "times= takes an integer"),
        ({"losses": -1}, ValueError, "losses= must be at least 0"),
        ({"on": "OSError"}, TypeError, "on= takes exception types, not 'OSError'"),
        ({"on": (OSError, 3)}, TypeError, "on= takes exception types, not 3"),
        ({"on": ()}, ValueError, "on= must name an exception type"),
        ({"backoff": "soon"}, TypeError, "backoff= takes seconds, or"),
        ({"backoff": (1, 2)}, TypeError, "backoff= takes seconds, or"),
        ({"backoff": -1}, ValueError, "backoff= takes first from 0 on"),
        ({"backoff": (1, 0.5, 2)}, ValueError, "backoff= takes first from 0 on"),
        ({"backoff": (3, 2, 2)}, ValueError, "backoff= takes first from 0 on"),
        ({"backoff": float("nan")}, ValueError, "backoff= takes first from 0 on"),
        ({"backoff": float("inf")}, ValueError, "backoff= takes first from 0 on"),
    ],
)
def test_what_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        Retry(**options)


def test_what_is_no_retry_is_refused():
    with pytest.raises(TypeError, match="retries= takes an integer, or a Retry"):
        delayed(retries=(1, 2))


def test_it_travels():
    retry = Retry(2, on=(OSError,), losses=5, backoff=(1, 2, 3))
    assert pickle.loads(pickle.dumps(retry)) == retry
