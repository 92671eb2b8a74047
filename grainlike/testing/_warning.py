"""Warning of the plugin of pytest, which imports nothing of a cluster."""

__all__ = ["ImplicitExecutorWarning"]


class ImplicitExecutorWarning(UserWarning):
    """A test awaited calls while no executor was open, so that an implicit one ran them, over all cores.

    The plugin of pytest gives it, and `-W error` makes the test fail.

    Example::

        @pytest.mark.filterwarnings("ignore::grainlike.testing.ImplicitExecutorWarning")
        async def test_without_an_executor(): ...
    """
