"""Signatures as a program meets them: an extension of griffe for what it cannot tell from the source text.

Classes of pools become dataclasses in a decorator of our own, their options come from several classes, and defaults may
be named constants. So the classes themselves are asked, and the text of their docstrings is put together.
"""

import inspect
import re
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

from api_pages import parameters_of, shown_classes, signed_classes
from griffe import Class, Expr, ExprBinOp, ExprName, Function, Module, Object, Parameter, ParameterKind, Parameters

__all__ = ["complete_classes", "complete_pools", "show_defaults"]

_POOL_CLASS = "grainlike.launch._pool.pool_class"
_SECTION = re.compile(r"^(?P<title>Attributes|Raises):\n(?P<body>(?: {4,}.*\n|\n(?= {4}))+)", re.MULTILINE)


def complete_classes(package: Module) -> None:
    """Give each class of the reference the signature that it has, where griffe knows of none."""
    signed = signed_classes()
    for name, kind in shown_classes().items():
        shown = package[name.removeprefix("grainlike.")]
        made = shown.final_target if shown.is_alias else shown
        if isinstance(init := made.members.get("__init__"), Function):
            init.parameters = Parameters(*(one for one in init.parameters if not one.name.startswith("_")))
        elif name in signed and (is_dataclass(kind) or "__init__" not in made.all_members):
            made.set_member("__init__", _init(made))


def complete_pools(package: Module) -> None:
    """Give each class of pools the signature that it has, and its docstring the options that it inherits."""
    classes = [one for one in _classes(package) if any(_path(mark.value) == _POOL_CLASS for mark in one.decorators)]
    texts = {one.path: f"{one.docstring.value if one.docstring else ''}\n" for one in classes}
    for one in classes:
        chain = [parent for parent in [*reversed(one.mro()), one] if parent.path in texts]
        one.set_member("__init__", _init(one))
        if one.docstring is not None:
            one.docstring.value = _with_options([texts[parent.path] for parent in chain])


def show_defaults(function: Function) -> None:
    """Put the values of named constants of grainlike in place of their names."""
    for parameter in function.parameters:
        default = parameter.default
        if isinstance(default, ExprName) and default.canonical_path.startswith("grainlike."):
            parameter.default = _shown(_value(function, default.name))


def _shown(default: object) -> str:
    """Return a default as Python: what is shown as `<...>` would keep a signature in one line."""
    return "..." if repr(default).startswith("<") else repr(default)


def _value(function: Function, name: str) -> object:
    return getattr(import_module(function.module.path), name)


def _path(value: Any) -> str:
    return value.canonical_path if isinstance(value, Expr) else str(value)


def _classes(owner: Object) -> list[Class]:
    found: list[Class] = []
    for member in owner.members.values():
        if isinstance(member, Class):
            found.append(member)
        elif isinstance(member, Module):
            found += _classes(member)
    return found


def _init(made: Class) -> Function:
    kind = getattr(import_module(made.module.path), made.name)
    shown = [_parameter(made, one) for one in parameters_of(kind) if not one.name.startswith("_")]
    own = Parameter("self", kind=ParameterKind.positional_or_keyword)
    return Function("__init__", parameters=Parameters(own, *shown), returns="None", parent=made)


def _parameter(made: Class, one: inspect.Parameter) -> Parameter:
    attribute = made.all_members.get("own_script" if one.name == "script" else one.name)
    annotation: Any = one.annotation if attribute is None else attribute.annotation
    kind = ParameterKind[one.kind.name.lower()]
    if one.default is inspect.Parameter.empty:
        return Parameter(one.name, annotation=annotation, kind=kind)
    if one.default is None and "None" not in str(annotation):  # `max`, which is a number as soon as it is known
        annotation = ExprBinOp(annotation, "|", "None")
    return Parameter(one.name, annotation=annotation, kind=kind, default=_shown(one.default))


def _with_options(texts: list[str]) -> str:
    """Return the docstring of a class with the options and errors of all classes that it is derived from."""
    sections: dict[str, list[str]] = {"Attributes": [], "Raises": []}
    for text in texts:
        for match in _SECTION.finditer(text):
            sections[match["title"]].append(match["body"].strip("\n"))
    summary, _, rest = _SECTION.sub("", texts[-1]).partition("\n\n")
    options = "\n".join(sections["Attributes"]).replace("    own_script:", "    script:")
    parts = [summary, f"Args:\n{options}", "Raises:\n" + "\n".join(sections["Raises"]), rest.strip("\n")]
    return "\n\n".join(part for part in parts if part) + "\n"
