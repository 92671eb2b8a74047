"""Constants: values that cannot change in place, as far as their types tell."""

import enum
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    NotImplementedType,
    WrapperDescriptorType,
)
from typing import Any

__all__ = ["parts_of_constant"]

_ATOMS = frozenset(
    {
        int, float, complex, str, bytes, bool, type(None), range, EllipsisType, NotImplementedType,
        ModuleType, BuiltinFunctionType, FunctionType, GenericAlias,
        GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType,
    }
)  # fmt: skip
"""Types without changeable parts. Modules are not sent, and functions are watched, so they are here, too."""

_ATOMS_ELSEWHERE = frozenset(
    {
        ("datetime", "date"), ("datetime", "datetime"), ("datetime", "time"), ("datetime", "timedelta"),
        ("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("re", "Pattern"),
        ("pathlib", "PosixPath"), ("pathlib._local", "PosixPath"),
        ("numpy", "ufunc"), ("logging", "Logger"), ("typing", "TypeVar"),
    }
)  # fmt: skip
"""Types, in modules that need not be loaded, whose objects never change, or travel by name alone."""


def parts_of_constant(value: object) -> Iterable[Any] | None:
    """Return the parts of `value` if it cannot change in place; None if it can.

    >>> parts_of_constant((1, [2])), parts_of_constant([2]), parts_of_constant(3)
    ([[2]], None, ())
    """
    kind = type(value)
    if kind in _ATOMS or issubclass(kind, type | enum.Enum) or (kind.__module__, kind.__name__) in _ATOMS_ELSEWHERE:
        return ()
    if kind is tuple or kind is frozenset:
        return _beside_atoms(value)  # type: ignore[arg-type]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _beside_atoms(value)  # type: ignore[arg-type]
    if isinstance(value, partial) and kind is partial:
        return _beside_atoms((value.func, *value.args, *value.keywords.values()))
    if kind is staticmethod or kind is classmethod:
        return (value.__func__,)  # type: ignore[attr-defined]
    if kind is property:
        return (value.fget, value.fset, value.fdel)  # type: ignore[attr-defined]
    if _says_so(value):
        return (value.__wrapped__,)  # type: ignore[attr-defined]
    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is not None and parameters.frozen:
        return _beside_atoms([getattr(value, field.name, None) for field in fields(value)])  # type: ignore[arg-type]
    return None


def _beside_atoms(parts: Iterable[Any]) -> list[Any]:
    return [part for part in parts if type(part) not in _ATOMS or type(part) is FunctionType]


def _says_so(value: object) -> bool:
    """Return True if a delayed function declares that it has no state but the function that it wraps."""
    return hasattr(type(value), "__grainlike_constant__") and bool(value.__grainlike_constant__)  # type: ignore[attr-defined]
