"""Help of the program: as few of its commands, and of the libraries that draw it, as the text takes."""

from grainlike.cli.help._light import contents_of, draw_light, explain_light

__all__ = ["contents_of", "draw_light", "explain_light"]
