"""Prometheus' text format (exposition format 0.0.4): what a family of metrics is, and how its samples are written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LINES_AT_ONCE = 2_000
"""A piece's lines: some 150 kB, written in a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric's name, type (counter or gauge), meaning and labels, in the order in which they are written."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


def label_text(*labels: tuple[str, object]) -> str:
    """Write labels as they stand between braces; whatever a value holds, it stays one value."""
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def lines(family: Family, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Write a family, in pieces: two comment lines, then a line per sample (labels as `label_text` has them, value)."""
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
