"""Metrics of steering by hash: what first contact has concluded about leaves, and the samples of running flows."""

from collections import Counter
from collections.abc import Iterator

from heddle.controller.dashboard.exposition import Family, label_text, lines
from heddle.controller.probe_sessions.first_contact import answers_of
from heddle.controller.probe_sessions.service import Probing

FIT = Family("heddle_leaf_fit", "gauge", "1 if source ports can steer flows from a leaf, by its last check.", ("leaf",))
ANSWERS = Family(
    "heddle_leaf_answers",
    "gauge",
    "1 for the answer of a leaf's last check to each question: yes, no or unknown.",
    ("leaf", "question", "answer"),
)
CHECKS = Family("heddle_leaf_checks_total", "counter", "Checks of a leaf by the probe agents there.", ("leaf",))
SAMPLES = Family(
    "heddle_flow_samples_total",
    "counter",
    "Samples of running flows by result; over_budget ones were not made.",
    ("result",),
)
DETECTION = Family(
    "heddle_hash_detection_seconds",
    "gauge",
    "Time in which samples see a change that moves a quarter of a leaf's flows, with 99 %; none where none reply.",
    ("leaf",),
)
FAMILIES = (FIT, ANSWERS, CHECKS, SAMPLES, DETECTION)
RESULTS = ("confirmed", "astray", "over_budget")


def steering_lines(probing: Probing | None) -> Iterator[str]:
    """Yield the metrics; without series of leaves for a fabric that does not hash."""
    leaves = probing.first_contact.leaves if probing is not None else {}
    counts = probing.sampler.counts if probing is not None else Counter[str]()
    detection_s = probing.sampler.detection_s if probing is not None else {}
    checked = [(leaf, contact.check) for leaf, contact in leaves.items() if contact.check is not None]
    yield from lines(FIT, [(label_text(("leaf", leaf)), int(check.is_fit)) for leaf, check in checked])
    yield from lines(
        ANSWERS,
        [
            (label_text(("leaf", leaf), ("question", question), ("answer", answer)), 1)
            for leaf, question, answer in answers_of(leaves)
        ],
    )
    yield from lines(CHECKS, [(label_text(("leaf", leaf)), contact.checks) for leaf, contact in leaves.items()])
    yield from lines(SAMPLES, [(label_text(("result", result)), counts[result]) for result in RESULTS])
    yield from lines(DETECTION, [(label_text(("leaf", leaf)), time_s) for leaf, time_s in detection_s.items()])
