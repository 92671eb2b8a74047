"""Text of requests: for `parse` to read back, and as code for `eval` to read back."""

from collections.abc import Iterator, Mapping

from grainlike.resources._kinds import CORES, KINDS, MEMORY
from grainlike.resources._quantity import UNIT, plain, quantity, short
from grainlike.resources._terms import NO_TERMS, Terms
from grainlike.resources._time import clock

Ids = Mapping[str, tuple[int, ...]]


def as_text(units: Mapping[str, int], ids: Ids, terms: Terms = NO_TERMS) -> str:
    """Write `cores=[6,7] foo=2 memory=100 token=a`, sorted by name."""
    amounts = [(name, f"{name}={_value(amount, ids.get(name))}") for name, amount in units.items()]
    if terms is not NO_TERMS:
        amounts = [(name, text + _suffix(name, terms)) for name, text in amounts]
        amounts = sorted((*_gang(amounts, terms, "nodes={}({})", " "), *_terms_text(terms)))
    return " ".join(text for _, text in amounts)


def as_code(units: Mapping[str, int], ids: Ids, terms: Terms = NO_TERMS) -> str:
    """Write `Cores([6, 7]) & Resource("foo", 2) & Memory(100)`, sorted by name; `parse("")` for nothing."""
    parts = [(name, _call(name, amount, ids.get(name), terms)) for name, amount in units.items()]
    if terms is not NO_TERMS:
        parts = sorted((*_gang(parts, terms, "Nodes({}, each={})", " & "), *_terms_code(terms)))
    return " & ".join(code for _, code in parts) or 'parse("")'


def _gang(amounts: list[tuple[str, str]], terms: Terms, pattern: str, between: str) -> list[tuple[str, str]]:
    """Wrap the amounts of a gang up as one part."""
    if terms.nodes == 1:
        return amounts
    return [("nodes", pattern.format(terms.nodes, between.join(text for _, text in amounts)))]


def _terms_text(terms: Terms) -> Iterator[tuple[str, str]]:
    for kind, pairs in (("limit", terms.limits), ("rate", terms.rates)):
        yield from ((f"{kind}:{name}", f"{kind}:{name}={plain(amount)}") for name, amount in pairs)
    yield from (("token", f"token={tag}") for tag in terms.tokens)
    if terms.walltime is not None or terms.group is not None:
        said = [clock(terms.walltime)] if terms.walltime is not None else []
        said += [f"soft={clock(terms.soft)}"] if terms.soft is not None else []
        said += [f"group={terms.group}"] if terms.group is not None else []
        yield "walltime", f"walltime={':'.join(said)}"


def _terms_code(terms: Terms) -> Iterator[tuple[str, str]]:
    for kind, word, pairs in (("limit", "Limit", terms.limits), ("rate", "Rate", terms.rates)):
        yield from ((f"{kind}:{name}", f'{word}("{name}", {_literal(amount)})') for name, amount in pairs)
    yield from (("token", f'Token("{tag}")') for tag in terms.tokens)
    if terms.walltime is not None or terms.group is not None:
        said = [f'"{clock(terms.walltime)}"'] if terms.walltime is not None else []
        said += [f'soft="{clock(terms.soft)}"'] if terms.soft is not None else []
        said += [f'group="{terms.group}"'] if terms.group is not None else []
        yield "walltime", f"WallTime({', '.join(said)})"


def _suffix(name: str, terms: Terms) -> str:
    """Return the text of a term about one amount, which stands behind it."""
    if name == CORES and terms.pack is not None:
        return f":pack={terms.pack}"
    if name == MEMORY and terms.growth is not None:
        factor, most = terms.growth
        return f":grow={plain(factor)}" + ("" if most is None else f":max={plain(most)}")
    return ""


def _value(amount: int, ids: tuple[int, ...] | None) -> str:
    if ids is None:
        return plain(amount)
    shown = f"[{','.join(map(str, ids))}]"
    return shown if amount == len(ids) * UNIT else f"{shown}*{plain(amount)}"


def _call(name: str, amount: int, ids: tuple[int, ...] | None, terms: Terms) -> str:
    kind = KINDS.get(name)
    word = "" if kind is None else kind.word
    if ids is not None:
        share = "" if amount == len(ids) * UNIT else f", {_literal(amount)}"
        return f"{word}({list(ids)}{share})" if word else f'parse("{name}={_value(amount, ids)}")'
    written = _bytes(amount) if kind is not None and kind.unit else _literal(amount)
    if not word:
        return f'Resource("{name}", {written})'
    whole, rest = divmod(amount, UNIT)
    if whole and rest:  # a sum that no job could be given, so the constructor would refuse it whole
        return f"{word}({whole}) + {word}({_literal(rest)})"
    return f"{word}({written}{_keywords(name, terms)})"


def _keywords(name: str, terms: Terms) -> str:
    """Return what a term says about one amount, as arguments behind it."""
    if name == CORES and terms.pack is not None:
        return f', pack="{terms.pack}"'
    return _growth(terms) if name == MEMORY else ""


def _growth(terms: Terms) -> str:
    if terms.growth is None:
        return ""
    factor, most = terms.growth
    return f", grow={_literal(factor)}" + ("" if most is None else f", max={_bytes(most)}")


def _bytes(amount: int) -> str:
    shown = short(amount)
    return f'"{shown}"' if shown else plain(amount)


def _literal(amount: int) -> str:
    """Write a Python number, or text where a float cannot hold all the digits."""
    shown = plain(amount)
    exact = amount % UNIT == 0 or quantity(repr(float(shown))) == amount if len(shown) < 30 else False
    return shown if exact else f'"{shown}"'
