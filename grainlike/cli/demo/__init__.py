"""Demonstration: a parameter sweep on this machine, with a baseline and a report."""
