"""The conclusions of a check as text and as JSON. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from heddle.probing.check.conclusions import Answer, LeafCheck
from heddle.probing.check.findings import FindingKind, listed

_PHRASES = {
    "ports_matter": {"yes": "source ports matter", "no": "source ports do not matter",
                     "unknown": "source ports: unknown"},
    "repeats_agree": {"yes": "repeats agree", "no": "repeats disagree", "unknown": "repeats: unknown"},
    "qpn_hashed": {"yes": "queue pair number hashed", "no": "queue pair number not hashed",
                   "unknown": "queue pair number: unknown"},
    "dscp_hashed": {"yes": "DSCP hashed", "no": "DSCP not hashed", "unknown": "DSCP: unknown"},
}  # fmt: skip


def lines(checks: Sequence[LeafCheck]) -> Iterator[str]:
    """Yield the text: a paragraph per leaf, then each remedy once."""
    for check in checks:
        state = "fit" if check.is_fit else "NOT FIT"
        limited = ", with limits" if check.is_fit and check.findings else ""
        yield f"{check.leaf}: {state}{limited}: {', '.join(_PHRASES[key][_answers(check)[key]] for key in _PHRASES)}"
        yield f"  {check.replied:,} of {check.sent:,} probes between {check.pairs} pairs of NICs had a reply"
        for reach in check.reach:
            never = f"; never: {listed(reach.unseen)}" if reach.unseen else ""
            yield f"  hop {reach.hop}: {len(reach.seen)} of {len(reach.seen) + len(reach.unseen)} links seen{never}"
        for finding in check.findings:
            yield f"  {'refused' if finding.refuses else 'limit'}: {finding.text}"
    for kind in _kinds(checks):
        yield f"remedy ({kind.value.replace('_', ' ')}): {kind.rule.remedy}"
    fit = sum(check.is_fit for check in checks)
    yield f"{fit} of {len(checks)} leaves are fit for steering by source ports"


def as_json(checks: Sequence[LeafCheck]) -> dict[str, Any]:
    """Return every value by name."""
    return {
        "fit": all(check.is_fit for check in checks),
        "leaves": [
            {
                "leaf": check.leaf,
                "fit": check.is_fit,
                "pairs": check.pairs,
                "probes": check.sent,
                "replies": check.replied,
                **_answers(check),
                "hops": [{"hop": each.hop, "seen": each.seen, "unseen": each.unseen} for each in check.reach],
                "findings": [
                    {
                        "kind": each.kind.value,
                        "refuses": each.refuses,
                        "text": each.text,
                        "remedy": each.kind.rule.remedy,
                    }
                    for each in check.findings
                ],
            }
            for check in checks
        ],
    }


def _answers(check: LeafCheck) -> dict[str, Answer]:
    return {
        "ports_matter": check.ports_matter,
        "repeats_agree": check.repeats_agree,
        "qpn_hashed": check.qpn_hashed,
        "dscp_hashed": check.dscp_hashed,
    }


def _kinds(checks: Sequence[LeafCheck]) -> list[FindingKind]:
    return list(dict.fromkeys(finding.kind for check in checks for finding in check.findings))
