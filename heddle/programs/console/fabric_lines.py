"""Print what differs between two fabrics, and what is to follow: for `heddle fabric diff` and `heddle fabric apply`."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from heddle.controller.config.text.complaint import MAX_LINES
from heddle.controller.views.fabric_differences import Copy, Difference

GBPS = 10**9
_TITLES = {
    "recabled": "plugged in elsewhere",
    "rates": "other rate",
    "datapath_ids": "other datapath id",
    "roles": "other role",
    "moved_nics": "NICs at another port",
    "addresses": "NICs of another address",
    "whole": "other",
    "others": "other settings",
    "displaced": "ports lead elsewhere",
    "beyond": "beyond the room of ports",
    "renamed": "looks renamed",
}
"""Of kinds whose title is not their name."""
MAX_NAMED = 3


def difference_lines(found: Iterable[Difference]) -> Iterator[str]:
    """Yield what differs, a kind after the other, of each the first ones."""
    any_differs = False
    for kind, group in groupby(found, lambda one: one.kind):
        any_differs = True
        title = _TITLES.get(kind, kind.replace("_", " ").replace("nics", "NICs"))
        yield from listed(title, dict.fromkeys(map(_text, group)))
    if not any_differs:
        yield "nothing differs"


def _text(one: Difference) -> str:
    match one.kind:
        case "recabled":
            return f"{one.was} is now {one.now}"
        case "rates":
            return f"{one.id} {int(one.was) / GBPS:g} -> {int(one.now) / GBPS:g} Gbit/s"
        case "datapath_ids":
            return f"{one.id} {int(one.was):#x} -> {int(one.now):#x}"
        case _:
            return f"{one.id} {one.was} -> {one.now}" if one.was or one.now else one.id


def listed(title: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield a line with a count, and a line for each of the first texts."""
    found = list(texts)
    if found:
        yield f"{title} ({len(found)}):"
        yield from (f"  {text}" for text in found[:MAX_LINES])
        if len(found) > MAX_LINES:
            yield f"  (+{len(found) - MAX_LINES} more)"


def copy_lines(copies: Iterable[Copy]) -> Iterator[str]:
    """Yield a line for each copy of the file, with the first parts that concern it."""
    texts = [f"{one.what}{_parts(one.parts)}: {one.todo or 'follow by themselves'}" for one in copies]
    yield from listed("made of the file as well", texts)


def _parts(parts: tuple[str, ...]) -> str:
    if not parts:
        return ""
    more = f" and {len(parts) - MAX_NAMED} more" if len(parts) > MAX_NAMED else ""
    return f" ({', '.join(parts[:MAX_NAMED])}{more})"
