"""Metrics of the ping mesh: what became of its probes and turns, and the links that lose probes."""

from collections import Counter
from collections.abc import Iterator

from heddle.controller.dashboard.exposition import Family, label_text, lines
from heddle.controller.mesh.location import Explained
from heddle.controller.probe_sessions.mesh import PingMesh

PROBES = Family(
    "heddle_mesh_probes_total",
    "counter",
    "Probes of the ping mesh by result; unknown: of hosts that were late or silent; queued: lost over a full queue.",
    ("result",),
)
TURNS = Family(
    "heddle_mesh_turns_total",
    "counter",
    "Turns of the ping mesh by result; discarded where what is in use changed, or the one before was still judged.",
    ("result",),
)
CROSSED = Family(
    "heddle_mesh_crossed_links", "gauge", "Directed links between switches that the probes of the last turn cross."
)
LOSSY = Family("heddle_mesh_lossy_links", "gauge", "Directed links between switches that lose probes.")
EXPLAINED = Family(
    "heddle_mesh_losses",
    "gauge",
    "Lost probes of the last ten minutes that accuse no link, by what explains them.",
    ("by",),
)
FAMILIES = (PROBES, TURNS, CROSSED, LOSSY, EXPLAINED)
RESULTS = ("answered", "lost", "queued", "unknown")
"""The queued ones are lost, too."""


def mesh_lines(mesh: PingMesh | None) -> Iterator[str]:
    """Yield the metrics; zeros where no mesh runs."""
    counts, judge = (mesh.counts, mesh.judge) if mesh is not None else (Counter[str](), None)
    yield from lines(PROBES, [(label_text(("result", result)), counts[result]) for result in RESULTS])
    turns = [("judged", counts["turns"]), ("discarded", counts["turns_discarded"])]
    yield from lines(TURNS, [(label_text(("result", result)), count) for result, count in turns])
    yield from lines(CROSSED, [("", mesh.crossed if mesh is not None else 0)])
    yield from lines(LOSSY, [("", len(judge.raised) if judge is not None else 0)])
    others = judge.others if judge is not None else Counter[Explained]()
    yield from lines(EXPLAINED, [(label_text(("by", by)), others[by]) for by in Explained])
