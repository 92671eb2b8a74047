"""How often two ends say that they live, and how long each believes the other when it is silent; in seconds."""

__all__ = ["HEARTBEAT_S", "LOST_S", "SUSPECT_S"]

HEARTBEAT_S = 5.0

SUSPECT_S = 15.0
"""A worker that has been silent for this long gets no more jobs for now."""

LOST_S = 30.0
"""Whoever has been silent for this long is lost to the other end: a worker, a client, or a head."""
