"""Prometheus' text format (exposition format 0.0.4): families of metrics and their samples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LINES_AT_ONCE = 2_000
"""Lines of a piece: some 150 kB, rendered in a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric's name, type (counter or gauge), help and label names, in the order in which they are written."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


def label_text(*labels: tuple[str, object]) -> str:
    """Return labels as they are between braces, with their values escaped."""
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def lines(family: Family, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield a family in pieces: two comment lines, then a line per sample (labels from `label_text`, value)."""
    name = family.name
    text = f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n"
    left = iter(samples)
    while piece := list(islice(left, LINES_AT_ONCE)):
        yield text + "".join(
            [f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n" for labels, value in piece]
        )
        text = ""
    if text:
        yield text
