"""Drawings of graphs: a snapshot of nodes and edges, as SVG, Mermaid text or HTML."""
