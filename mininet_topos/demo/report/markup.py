"""Elements of HTML and SVG as text: well-formed as XML, and nothing unescaped gets in."""

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr


class Markup(str):
    """Text that is markup already; every other string is escaped where it becomes a child."""

    __slots__ = ()


Child = str | float | None | Iterable["Child"]

EMPTY_IN_SVG = frozenset({"rect", "line", "path", "circle", "meta", "br", "use"})
"""Elements written as <name/>; HTML knows no such form for any other."""


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Write one element; `class_` stands for class, an underscore inside a name for a hyphen, None leaves out."""
    plain = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = name + "".join(f" {key}={quoteattr(_text(value))}" for key, value in plain.items())
    inside = "".join(_flat(children))
    if not inside and name in EMPTY_IN_SVG:
        return Markup(f"<{start}/>")
    return Markup(f"<{start}>{inside}</{name}>")


def join(*children: Child) -> Markup:
    """Write elements one after another, with nothing around them."""
    return Markup("".join(_flat(children)))


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, str | int | float):
            yield escape(_text(child))
        else:
            yield from _flat(child)


def _text(value: str | float) -> str:
    """Write a number with at most two decimals: a picture needs no more."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
