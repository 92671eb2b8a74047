"""Task that Celery's workers must load: `celery -A proj worker --include grainlike.backends.celery_task`."""

from __future__ import annotations

from base64 import b64decode, b64encode

from celery import shared_task  # type: ignore[import-not-found, import-untyped, unused-ignore]

from grainlike.calls import run_call
from grainlike.payload import Payload, dump_value, load_value

__all__ = ["NAME", "packed", "run_packed", "unpacked"]

NAME = "grainlike.run_call"


def packed(what: object) -> str:
    """An object as text, for whatever serializer a Celery app has."""
    return b64encode(dump_value(what).data).decode()


def unpacked(text: str) -> object:
    """The object of such a text."""
    return load_value(Payload(b64decode(text)))


@shared_task(name=NAME)  # type: ignore[untyped-decorator, unused-ignore]
def run_packed(text: str) -> str:
    """Perform a call."""
    return packed(run_call(unpacked(text)))  # type: ignore[arg-type]
