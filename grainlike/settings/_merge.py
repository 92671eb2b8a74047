"""Settings of all sources, merged: the first source that has a key decides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from grainlike.errors import SettingsError
from grainlike.settings._files import read_files
from grainlike.settings._keys import SECTIONS, Key

__all__ = ["Setting", "Settings", "read_settings"]

_PREFIX = "GRAINLIKE_"
_POOL = "pool"
_EXTENDS = "extends"
_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


class Setting(NamedTuple):
    """Value of a key, and the file or variable that it is from."""

    value: Any
    origin: str


_Table = dict[str, Setting]


class Settings:
    """All that files and the environment say.

    Attributes:
        sections: settings by section and key; what was not set is not there.
        pools: keys of each pool by name, as they are written in the files, `extends` among them.

    Example::

        settings = read_settings()
        listen = settings.get("head", "listen")
    """

    def __init__(self, sections: Mapping[str, _Table], pools: Mapping[str, _Table]) -> None:
        self.sections: MappingProxyType[str, _Table] = MappingProxyType(dict(sections))
        self.pools: MappingProxyType[str, _Table] = MappingProxyType(dict(pools))

    def get(self, section: str, key: str) -> Any:
        """Return the value of a key of `SECTIONS`; None if it was not set."""
        found = self.sections.get(section, {}).get(key)
        return None if found is None else found.value

    def pool(self, name: str) -> _Table:
        """Return the keys of a pool, with those of the pools that it extends.

        Raises:
            SettingsError: there is no such pool, it extends none that is there, or itself.
        """
        found: _Table = {}
        chain = [name]
        while True:
            table = self.pools.get(chain[-1])
            if table is None:
                raise SettingsError(self._no_pool(chain))
            found = {**{key: one for key, one in table.items() if key != _EXTENDS}, **found}
            above = table.get(_EXTENDS)
            if above is None:
                return found
            if not isinstance(above.value, str):
                raise SettingsError(f"{above.origin}: [pool.{chain[-1]}] extends: {above.value!r} is no pool's name")
            if above.value in chain:
                circle = " -> ".join([*chain, above.value])
                raise SettingsError(f"{above.origin}: [pool.{name}] extends itself: {circle}")
            chain.append(above.value)

    def _no_pool(self, chain: list[str]) -> str:
        wanted = f"there is no [pool.{chain[-1]}]{_nearest(chain[-1], self.pools)}"
        if len(chain) == 1:
            return wanted
        return f"{self.pools[chain[-2]][_EXTENDS].origin}: [pool.{chain[-2]}] extends: {wanted}"


def read_settings() -> Settings:
    """Read all sources.

    Raises:
        SettingsError: a file or variable is not right; the error names it and, for an unknown key, the nearest right
            one.
    """
    sections: dict[str, _Table] = {}
    pools: dict[str, _Table] = {}
    for origin, section, key, value in _environment(os.environ):
        sections.setdefault(section, {}).setdefault(key, Setting(value, origin))
    for origin, table in read_files():
        for section, key, value in _checked(origin, table):
            sections.setdefault(section, {}).setdefault(key, Setting(value, origin))
        for name, keys in _pools(origin, table):
            pool = pools.setdefault(name, {})
            for key, value in keys.items():
                pool.setdefault(key, Setting(value, origin))
    return Settings(sections, pools)


def _environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str, Any]]:
    """Iterate over variables that are settings: a double underscore tells them from those that jobs are given."""
    for name, text in environment.items():
        section, double, key = name.removeprefix(_PREFIX).lower().partition("__")
        if not name.startswith(_PREFIX) or not double:
            continue
        if section == _POOL:
            raise SettingsError(f"{name}: pools are described in files alone, as [pool.NAME]")
        known = _key(name, section, key)
        yield name, section, key, _right(name, section, key, known, _parsed(text, known))


def _checked(origin: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for section, keys in table.items():
        if section == _POOL:
            continue
        if not isinstance(keys, dict):
            raise SettingsError(f"{origin}: {section}{_beyond_sections(section)}")
        for key, value in cast("dict[str, Any]", keys).items():
            yield section, key, _right(origin, section, key, _key(origin, section, key), value)
        if section not in SECTIONS:  # an empty one
            raise SettingsError(f"{origin}: [{section}]: there is no such section{_nearest(section, _sections())}")


def _beyond_sections(name: str) -> str:
    sections = [f"[{section}]" for section, keys in SECTIONS.items() if name in keys]
    return f" stands outside of a section; it belongs into {' or '.join(sections)}" if sections else " is no section"


def _pools(origin: str, table: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    pools = table.get(_POOL, {})
    if not isinstance(pools, dict):
        raise SettingsError(f"{origin}: pool: write a table for each, as [pool.cpu]")
    for name, keys in cast("dict[str, Any]", pools).items():
        if not isinstance(keys, dict):
            raise SettingsError(f"{origin}: pool.{name}: write a table for each, as [pool.cpu]")
        yield name, cast("dict[str, Any]", keys)


def _key(origin: str, section: str, key: str) -> Key:
    keys = SECTIONS.get(section)
    if keys is None:
        raise SettingsError(f"{origin}: [{section}]: there is no such section{_nearest(section, _sections())}")
    if key not in keys:
        raise SettingsError(f"{origin}: [{section}] {key}: there is no such key{_nearest(key, keys)}")
    return keys[key]


def _right(origin: str, section: str, key: str, known: Key, value: Any) -> Any:
    if known.type is float and type(value) is int:
        value = float(value)
    if type(value) is not known.type:
        raise SettingsError(f"{origin}: [{section}] {key}: {value!r} is no {_NAMES[known.type]}")
    if known.choices and value not in known.choices:
        raise SettingsError(f"{origin}: [{section}] {key}: {value!r} is none of {', '.join(known.choices)}")
    return value


def _parsed(text: str, known: Key) -> Any:
    """Return the text of a variable as a value of the key's type, as far as it is one."""
    if known.type is bool:
        return _WORDS.get(text.lower(), text)
    if known.type is str:
        return text
    try:
        return known.type(text)
    except ValueError:
        return text


_NAMES: dict[type, str] = {str: "text", bool: "true or false", int: "whole number", float: "number"}


def _sections() -> list[str]:
    return [*SECTIONS, _POOL]


def _nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    from difflib import get_close_matches  # for errors alone

    near = get_close_matches(word, names, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(names)}" if names else ""
