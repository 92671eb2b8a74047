"""Commands that show a head until they are ended: `dashboard`, and the pages of `head start --dashboard`."""

from grainlike.cli.screens._dashboard import beside_head, serve_dashboard

__all__ = ["beside_head", "serve_dashboard"]
