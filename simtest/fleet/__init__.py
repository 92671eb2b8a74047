"""Simulated fleets: the fleet scheduler in worlds with bad batch systems, and a judge with records of its own."""

from simtest.fleet._simulate import FleetOutcome, simulate_fleet

__all__ = ["FleetOutcome", "simulate_fleet"]
