"""Jobs on several nodes at once: which requests are for such a one, and what is said to them for now."""

from __future__ import annotations

from grainlike.resources import Request

__all__ = ["gang_refusal"]


def gang_refusal(request: Request) -> str | None:
    """Why no job can be made of a request, None where one can: nothing that it says is passed over in silence."""
    if any(option.nodes > 1 for option in request.options):
        return f"{request}: jobs on several nodes at once cannot be run yet"
    return None
