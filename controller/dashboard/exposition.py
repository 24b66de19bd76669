"""Prometheus' text format (exposition format 0.0.4): what a family of metrics is, and how its samples are written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
    """Write a family: its two comment lines, then a line per sample (labels as `label_text` has them, value)."""
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value in samples:
        yield f"{family.name}{{{labels}}} {value}" if labels else f"{family.name} {value}"
