"""Settings: defaults of commands and calls from files and the environment, each with its origin.

What is written in a call or on a command line goes before all of them. Then, the first that says something: the
environment (`GRAINLIKE_SECTION__KEY`), `grainlike.toml` in the working directory, `[tool.grainlike]` of
`pyproject.toml` there, the user's file, the site's in `/etc`. Each is read when it is wanted, never at import.

Pools of workers are tables `[pool.NAME]`, merged key by key over the files; what their keys mean is in `launch`.
"""

from grainlike.settings._keys import SECTIONS, Key
from grainlike.settings._merge import Setting, Settings, read_settings

__all__ = ["SECTIONS", "Key", "Setting", "Settings", "read_settings"]
