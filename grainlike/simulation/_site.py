"""Site: a machine with a worker on it, the faults of the worker, its link and its clock, and its return."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from grainlike.scheduler import GRACE_S
from grainlike.simulation._clock import Clock
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._dice import Dice
from grainlike.simulation._head import SimulatedHead
from grainlike.simulation._plans import NodePlan
from grainlike.simulation._voice import go_on
from grainlike.wire import HEARTBEAT_S, LOST_S, SUSPECT_S

__all__ = ["Site"]

GOODBYE_S = 1.0
"""Seconds beyond the grace time that a worker that stops takes at most."""


class _Stage(Protocol):
    clock: Clock
    dice: Dice
    head: SimulatedHead
    closed: bool

    def new_daemon(self, plan: NodePlan) -> Daemon:
        """Return a new daemon for the node."""
        ...


class Site:
    """Holds one daemon of a node after another. There is one fault at a time: `steady` says that none is under way.

    In a closed world no worker comes back.
    """

    def __init__(self, stage: _Stage, plan: NodePlan) -> None:
        self.plan = plan
        self.daemon: Daemon | None = None
        self.steady: bool = True
        self._stage = stage
        self._clock = stage.clock

    def start(self) -> None:
        """Start a new daemon, which connects to the head."""
        self.steady = True
        self.daemon = self._stage.new_daemon(self.plan)
        self.daemon.on_departure = self._depart
        if self._clock.now <= self.plan.joins_at == 0.0:
            self._connected(self.daemon)
        else:
            self._clock.after(self._stage.dice.between(0.001, 0.01), self._connected, self.daemon)

    def _connected(self, daemon: Daemon) -> None:
        if not self._stage.head.alive:  # the connection is refused
            daemon.die()
            self._come_back()
        elif daemon.alive:
            self._stage.head.join(daemon)
            if self.plan.stops_after is not None:
                self._clock.after(self.plan.stops_after, self._time_is_up, daemon)

    def _come_back(self) -> None:
        self.daemon = None
        if self._stage.head.alive and not self._stage.closed and self.plan.stops_after is None:
            self._clock.after(self._stage.dice.between(0.1, 5.0), self.start)

    # --- the head's death --------------------------------------------------------------------------------------------

    def lose_head(self, *, silent: bool) -> None:
        """End the daemon's link, behind all that the head had sent; if `silent`, the link just carries nothing any
        more.

        A daemon that is not connected has no jobs of the head, or is ended by its own fault.
        """
        daemon = self.daemon
        peer = None if daemon is None else self._stage.head.peers.get(daemon.worker)
        if daemon is None or peer is None:
            return
        ending = (daemon.lose_head, self._end, GRACE_S + GOODBYE_S)
        if silent:
            peer.down.cut()
            self._clock.after(self._silence() / self.plan.rate, *ending)
        else:
            peer.down.say(*ending)

    # --- faults ------------------------------------------------------------------------------------------------------

    def kill_runner(self) -> None:
        """Send SIGKILL to one of its processes."""
        if self.daemon is not None:
            runners = [runner for runner in self.daemon.runners.values() if runner.alive and runner.up]
            if runners:
                self._stage.dice.pick(runners).die("SIGKILL")

    def kill(self) -> None:
        """Send SIGKILL to the daemon. What it had written may still arrive; or the machine is gone, and its link
        silent.
        """
        daemon = self._steady()
        if daemon is None:
            return
        daemon.die()
        way = self._stage.dice.below(3)
        if way:
            late = daemon.up.cut()
            self._clock.after(self._silence() if way == 1 else 0.001, self._lost, daemon, late)
        else:
            daemon.up.say(self._lost, daemon, [])
        self._come_back()

    def freeze(self, seconds: float) -> None:
        """Send SIGSTOP to the daemon, and SIGCONT `seconds` later. Its runners continue."""
        daemon = self._steady()
        if daemon is None:
            return
        self._fall_silent(daemon)
        daemon.frozen = True
        silence = self._silence()
        if seconds > silence:
            self._clock.after(silence, self._lost, daemon, [])
        self._suspected(daemon, seconds)
        self._clock.after(seconds, self._thaw, daemon, seconds > silence)

    def _thaw(self, daemon: Daemon, lost: bool) -> None:
        daemon.thaw()
        self.steady = True
        self._stage.head.heard(daemon.worker)
        if lost:  # its link was closed meanwhile
            daemon.die()
            self._come_back()

    def partition(self, seconds: float) -> None:
        """Silence the link in both directions. Each end gives the other up in its own time."""
        daemon = self._steady()
        if daemon is None:
            return
        self._fall_silent(daemon)
        down = self._stage.head.peers[daemon.worker].down
        down.hold()
        daemon.up.hold()
        by_head, by_daemon = self._silence(), self._silence() / self.plan.rate
        self._suspected(daemon, seconds)
        if seconds > by_head:
            self._clock.after(by_head, self._lost, daemon, [])
        if seconds > by_daemon:
            self._clock.after(by_daemon, daemon.die)
        self._clock.after(seconds, self._healed, daemon, down.release, seconds > min(by_head, by_daemon))

    def _healed(self, daemon: Daemon, release_down: Callable[[], None], broken: bool) -> None:
        self.steady = True
        self._stage.head.heard(daemon.worker)
        release_down()
        daemon.up.release()  # reports of a worker that was given up arrive now, and are ignored
        if broken:
            if daemon.alive:
                daemon.die()
            daemon.up.say(self._lost, daemon, [])
            self._come_back()

    def _suspected(self, daemon: Daemon, seconds: float) -> None:
        """Let the head suspect the worker if the silence of `seconds` is long enough."""
        if seconds > SUSPECT_S:
            self._clock.after(SUSPECT_S, partial(self._stage.head.suspect, daemon.worker, broke=False))

    def _fall_silent(self, daemon: Daemon) -> None:
        self.steady = False
        daemon.witness.stalled(daemon.worker)

    def stop(self) -> None:
        """Send SIGTERM to the daemon. It exits when it has no jobs left; sometimes it is killed before."""
        daemon = self._steady()
        if daemon is None:
            return
        self.steady = False
        patience = GRACE_S + GOODBYE_S
        if self._stage.dice.chance(0.2):
            patience = max(0.001, self._stage.dice.between(-GRACE_S, GRACE_S))  # often at once
        self._clock.after(patience, self._end, daemon)
        daemon.stop(self._end)

    def drain(self) -> None:
        """Let the head have the worker end when its jobs have."""
        daemon = self._steady()
        if daemon is not None:
            self._stage.head.drain(daemon.worker)

    def _depart(self, daemon: Daemon) -> None:
        if self.daemon is daemon:
            self.steady = False
            self._clock.after(GRACE_S + GOODBYE_S, self._end, daemon)
            daemon.stop(self._end)

    def _time_is_up(self, daemon: Daemon) -> None:
        if self.daemon is daemon:
            self.stop()
            self._clock.after(GRACE_S + GOODBYE_S, self._end, daemon)  # whatever other fault it has

    def reset(self) -> None:
        """Reset the connection (RST): nothing more goes through, and either end notices it soon."""
        daemon = self._steady()
        if daemon is None:
            return
        self.steady = False
        for channel in (daemon.up, self._stage.head.peers[daemon.worker].down):
            channel.cut()
            channel.hold()
        self._clock.after(self._stage.dice.between(0.0, 0.01), self._lost, daemon, [])
        self._clock.after(self._stage.dice.between(0.0, 0.01), self._end, daemon)

    def blink(self, seconds: float) -> None:
        """Break the link, with what was on the way; the worker connects again `seconds` later and continues."""
        daemon = self._steady()
        if daemon is None:
            return
        self._fall_silent(daemon)
        for channel in (daemon.up, self._stage.head.peers[daemon.worker].down):
            channel.cut()
            channel.hold()
        self._clock.after(min(seconds, 0.005), self._broken, daemon)
        self._clock.after(seconds, self._back, daemon)

    def _broken(self, daemon: Daemon) -> None:
        self._stage.head.suspect(daemon.worker, broke=True)

    def _back(self, daemon: Daemon) -> None:
        """Open the link again, if the worker is still there."""
        if self.daemon is not daemon or not daemon.alive:
            self._lost(daemon, [])
            return
        self.steady = True
        peer = self._stage.head.peers.get(daemon.worker)
        if peer is None:  # the head has died: the connection is refused
            daemon.lose_head(self._end, GRACE_S + GOODBYE_S)
            return
        go_on(daemon.up, peer.down)
        self._stage.head.heard(daemon.worker)

    def _end(self, daemon: Daemon) -> None:
        """End the daemon's process, if it lives; the head reads the end of its link after all messages of it."""
        if self.daemon is daemon:
            if daemon.alive:
                daemon.die()
            daemon.up.say(self._lost, daemon, [])
            self._come_back()

    def _steady(self) -> Daemon | None:
        daemon = self.daemon
        if daemon is None or not self.steady or daemon.worker not in self._stage.head.peers:
            return None
        return daemon

    def _silence(self) -> float:
        """Return the seconds from the start of a silence until it is noticed: the last heartbeat is up to a period
        old.
        """
        return LOST_S - self._stage.dice.between(0.0, HEARTBEAT_S)

    def _lost(self, daemon: Daemon, late: list[tuple[Callable[..., None], tuple[object, ...]]]) -> None:
        """Let the head give the worker up; messages that it reads after that are ignored."""
        self._stage.head.leave(daemon.worker, "its connection is gone")
        for call, arguments in late:
            call(*arguments)
