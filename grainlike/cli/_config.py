"""`config show`: settings that are in force, and where each is from."""

from __future__ import annotations

import json
import sys

from grainlike import launch
from grainlike.cli._exits import OK, USAGE
from grainlike.cli._words import escaped, print_json
from grainlike.errors import SettingsError
from grainlike.settings import SECTIONS, Setting, read_settings

__all__ = ["show_settings"]


def show_settings(*, origin: bool, as_json: bool) -> int:
    """Print what is set, as TOML, or as JSON with the origins; 2 if it is not right, with the reason."""
    try:
        found = _tables()
    except (SettingsError, ValueError) as error:
        print(f"grainlike: {escaped(str(error))}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return USAGE
    if as_json:
        print_json(
            [
                {"section": section, "key": key, "value": setting.value, "origin": setting.origin}
                for section, table in found.items()
                for key, setting in table.items()
            ]
        )
    elif not found:
        print("nothing is set: all is as by default")  # noqa: T201
    else:
        print("\n\n".join(_toml(section, table, origin=origin) for section, table in found.items()))  # noqa: T201
    return OK


def _tables() -> dict[str, dict[str, Setting]]:
    """Return the tables that have keys, pools with those that they extend; each pool is checked as it is when it is
    used.
    """
    settings = read_settings()
    tables = {name: dict(settings.sections[name]) for name in SECTIONS if settings.sections.get(name)}
    for name in settings.pools:
        pool = settings.pool(name)
        launch.pool_from({key: setting.value for key, setting in pool.items()}, name)
        tables[f"pool.{name}"] = pool
    return tables


def _toml(section: str, table: dict[str, Setting], *, origin: bool) -> str:
    lines = [f"{key} = {_value(setting.value)}" for key, setting in table.items()]
    if origin:
        width = max(map(len, lines))
        lines = [
            f"{line:{width}}  # {escaped(setting.origin)}" for line, setting in zip(lines, table.values(), strict=True)
        ]
    return "\n".join([f"[{section}]", *lines])


def _value(value: object) -> str:
    """Return a value as TOML has it; strings of JSON are strings of TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_value(one)}' for key, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)
