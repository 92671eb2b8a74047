"""Partitions of graphs: parts that are sent as one job each, and the pieces that they are made of."""
