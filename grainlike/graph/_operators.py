"""Python's operators on placeholders: each makes a placeholder of the result."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from grainlike.graph._function import Function, operation
from grainlike.graph._node import Node
from grainlike.graph._placeholder import LEAVES, Placeholder, capture
from grainlike.graph._state import RunsIn
from grainlike.resources import Request

__all__ = ["Operators", "binary", "operate"]

P = TypeVar("P", bound=Placeholder)

_INLINE = RunsIn.INLINE


def operate(function: Function, *args: Any, **kwargs: Any) -> Node:
    """Return a node that applies `function` to the arguments, in which placeholders are found."""
    return Node(function, None, _INLINE, *capture(args, kwargs))


def _unary(function: Function, operand: Operators[P]) -> P:
    node = operand._node
    alone = (node,)
    return type(operand)(Node(function, None, _INLINE, alone, None, alone))  # type: ignore[return-value]


def binary(function: Function, left: Operators[P], right: Any) -> P:
    """Do as `operate` does, by a shorter way for the two operands that nearly all operations have."""
    node = left._node
    if type(right) in LEAVES:
        made = Node(function, None, _INLINE, (node, right), None, (node,))
    elif isinstance(right, Placeholder) and right._node is not node:
        both = (node, right._node)
        made = Node(function, None, _INLINE, both, None, both)
    else:
        made = operate(function, left, right)
    return type(left)(made)  # type: ignore[return-value]


def _refuse_request(symbol: str, other: object) -> None:
    if isinstance(other, Request):
        raise TypeError(
            f"`{symbol}` with a request comes before the call: write `(fn @ Cores(4))(x)`, "
            "and `fn @ (a & b)` for two requests"
        )


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def swapped(right: Any, left: Any) -> Any:
        return function(left, right)

    return swapped


def _both(function: Callable[[Any, Any], Any], symbol: str, nout: int | None = None) -> tuple[Function, Function]:
    return operation(function, symbol, nout), operation(_swapped(function), symbol, nout)


_ADD, _RADD = _both(operator.add, "+")
_SUB, _RSUB = _both(operator.sub, "-")
_MUL, _RMUL = _both(operator.mul, "*")
_DIV, _RDIV = _both(operator.truediv, "/")
_FLOORDIV, _RFLOORDIV = _both(operator.floordiv, "//")
_MOD, _RMOD = _both(operator.mod, "%")
_DIVMOD, _RDIVMOD = _both(divmod, "divmod", nout=2)
_POW, _RPOW = _both(operator.pow, "**")
_LSHIFT, _RLSHIFT = _both(operator.lshift, "<<")
_RSHIFT, _RRSHIFT = _both(operator.rshift, ">>")
_AND, _RAND = _both(operator.and_, "&")
_OR, _ROR = _both(operator.or_, "|")
_XOR, _RXOR = _both(operator.xor, "^")
_MATMUL, _RMATMUL = _both(operator.matmul, "@")
_EQ = operation(operator.eq, "==")
_NE = operation(operator.ne, "!=")
_LT = operation(operator.lt, "<")
_LE = operation(operator.le, "<=")
_GT = operation(operator.gt, ">")
_GE = operation(operator.ge, ">=")
_NEG = operation(operator.neg, "-")
_POS = operation(operator.pos, "+")
_INVERT = operation(operator.invert, "~")
_ABS = operation(abs, "abs")
_ROUND = operation(round, "round")
_TRUNC = operation(math.trunc, "trunc")
_FLOOR = operation(math.floor, "floor")
_CEIL = operation(math.ceil, "ceil")
_POW_MOD = operation(pow, "pow")


class Operators(Placeholder, Generic[P]):
    """The operators of placeholders whose results are of type `P`, which is their own type.

    In-place ones are left to Python: `s_ += x` is `s_ = s_ + x`, and changes no value.
    """

    __slots__ = ()

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__

    def __add__(self, other: Any) -> P:
        return binary(_ADD, self, other)

    def __radd__(self, other: Any) -> P:
        return binary(_RADD, self, other)

    def __sub__(self, other: Any) -> P:
        return binary(_SUB, self, other)

    def __rsub__(self, other: Any) -> P:
        return binary(_RSUB, self, other)

    def __mul__(self, other: Any) -> P:
        return binary(_MUL, self, other)

    def __rmul__(self, other: Any) -> P:
        return binary(_RMUL, self, other)

    def __truediv__(self, other: Any) -> P:
        return binary(_DIV, self, other)

    def __rtruediv__(self, other: Any) -> P:
        return binary(_RDIV, self, other)

    def __floordiv__(self, other: Any) -> P:
        return binary(_FLOORDIV, self, other)

    def __rfloordiv__(self, other: Any) -> P:
        return binary(_RFLOORDIV, self, other)

    def __mod__(self, other: Any) -> P:
        return binary(_MOD, self, other)

    def __rmod__(self, other: Any) -> P:
        return binary(_RMOD, self, other)

    def __divmod__(self, other: Any) -> P:
        return binary(_DIVMOD, self, other)

    def __rdivmod__(self, other: Any) -> P:
        return binary(_RDIVMOD, self, other)

    def __pow__(self, other: Any, modulo: Any = None) -> P:
        if modulo is None:
            return binary(_POW, self, other)
        return type(self)(operate(_POW_MOD, self, other, modulo))  # type: ignore[return-value]

    def __rpow__(self, other: Any) -> P:
        return binary(_RPOW, self, other)

    def __lshift__(self, other: Any) -> P:
        return binary(_LSHIFT, self, other)

    def __rlshift__(self, other: Any) -> P:
        return binary(_RLSHIFT, self, other)

    def __rshift__(self, other: Any) -> P:
        return binary(_RSHIFT, self, other)

    def __rrshift__(self, other: Any) -> P:
        return binary(_RRSHIFT, self, other)

    def __and__(self, other: Any) -> P:
        _refuse_request("&", other)
        return binary(_AND, self, other)

    def __rand__(self, other: Any) -> P:
        _refuse_request("&", other)
        return binary(_RAND, self, other)

    def __or__(self, other: Any) -> P:
        _refuse_request("|", other)
        return binary(_OR, self, other)

    def __ror__(self, other: Any) -> P:
        _refuse_request("|", other)
        return binary(_ROR, self, other)

    def __xor__(self, other: Any) -> P:
        return binary(_XOR, self, other)

    def __rxor__(self, other: Any) -> P:
        return binary(_RXOR, self, other)

    def __matmul__(self, other: Any) -> P:
        _refuse_request("@", other)
        return binary(_MATMUL, self, other)

    def __rmatmul__(self, other: Any) -> P:
        _refuse_request("@", other)
        return binary(_RMATMUL, self, other)

    def __eq__(self, other: object) -> P:  # type: ignore[override]
        return binary(_EQ, self, other)

    def __ne__(self, other: object) -> P:  # type: ignore[override]
        return binary(_NE, self, other)

    def __lt__(self, other: Any) -> P:
        return binary(_LT, self, other)

    def __le__(self, other: Any) -> P:
        return binary(_LE, self, other)

    def __gt__(self, other: Any) -> P:
        return binary(_GT, self, other)

    def __ge__(self, other: Any) -> P:
        return binary(_GE, self, other)

    def __neg__(self) -> P:
        return _unary(_NEG, self)

    def __pos__(self) -> P:
        return _unary(_POS, self)

    def __invert__(self) -> P:
        return _unary(_INVERT, self)

    def __abs__(self) -> P:
        return _unary(_ABS, self)

    def __trunc__(self) -> P:
        return _unary(_TRUNC, self)

    def __floor__(self) -> P:
        return _unary(_FLOOR, self)

    def __ceil__(self) -> P:
        return _unary(_CEIL, self)

    def __round__(self, ndigits: Any = None) -> P:
        return _unary(_ROUND, self) if ndigits is None else binary(_ROUND, self, ndigits)
