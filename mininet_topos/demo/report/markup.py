"""Build HTML and SVG elements as text: well-formed XML, with all text and attributes escaped."""

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr


class Markup(str):
    """Text that is already markup; `tag` and `join` escape every other string."""

    __slots__ = ()


Child = str | float | None | Iterable["Child"]

EMPTY_IN_SVG = frozenset({"rect", "line", "path", "circle", "meta", "br", "use"})
"""Elements that are written as <name/> when empty; HTML does not allow that form for others."""


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Return one element. In attribute names `class_` is "class" and "_" becomes "-"; None omits the attribute."""
    plain = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = name + "".join(f" {key}={quoteattr(_text(value))}" for key, value in plain.items())
    content = "".join(_flat(children))
    if not content and name in EMPTY_IN_SVG:
        return Markup(f"<{start}/>")
    return Markup(f"<{start}>{content}</{name}>")


def join(*children: Child) -> Markup:
    """Return the concatenation of elements."""
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
    """Return a value as text, numbers with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
