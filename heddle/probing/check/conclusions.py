"""Conclude from the replies of a check, leaf by leaf: can source ports steer here, and which links do they reach?

Silence is no evidence: it makes a leaf unknown, which refuses it like a fault, with another remedy.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from heddle.probing.check.findings import Finding, FindingKind, listed
from heddle.probing.check.places import Choice, Counts, Leg, Named, Places, Replies, counted, hops_of
from heddle.probing.check.questions import FIRST_HOP, SAMPLE, Pair, Round, Step, Variation
from heddle.probing.probe import Question

MAX_SILENCE = 0.2
"""A leaf with a larger share of silent probes is unknown: one router in five, or a limit on ICMP errors."""
PASSED = 4
"""A switch that replied to none of so many ports that passed it is silent: losing a fifth does so in 1 of 600."""
MIN_MISSES = 1e-4
"""A link is never used if a hash that mixes would have missed a link of its tier with less than this expectation."""
POLARISED = 0.6
"""A tier that uses at most this part of the links that so many probes would find repeats the tier below."""


class Answer(StrEnum):
    """The answer to one question about a leaf's hash."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Reach(NamedTuple):
    """The links by which probes came in at a hop, and those by which none came though a switch had them to choose.

    A link that a few more probes may still find is in neither.
    """

    hop: int
    seen: tuple[str, ...]
    unseen: tuple[str, ...]


class LeafCheck(NamedTuple):
    """What a check concludes about the paths from one leaf."""

    leaf: str
    pairs: int
    sent: int
    replied: int
    ports_matter: Answer
    repeats_agree: Answer
    qpn_hashed: Answer
    dscp_hashed: Answer
    reach: tuple[Reach, ...]
    findings: tuple[Finding, ...]

    @property
    def is_fit(self) -> bool:
        """Return whether paths from this leaf can be steered by source ports."""
        return not any(finding.refuses for finding in self.findings)


Heard = Mapping[Variation, Mapping[int, Replies]]
"""Replies by round and source address."""


def concluded(pairs: Sequence[Pair], sent: Sequence[Round], heard: Heard, places: Places) -> tuple[LeafCheck, ...]:
    """Return the conclusions about every leaf of the pairs, in their order."""
    of_leaf: dict[str, list[Pair]] = {}
    for pair in pairs:
        of_leaf.setdefault(pair.leaf, []).append(pair)
    first = next(each for each in sent if each.variation is Variation.FIRST)
    return tuple(
        _leaf(leaf, mates, counted(mates, first.questions, heard.get(Variation.FIRST, {}), places), sent, heard)
        for leaf, mates in of_leaf.items()
    )


def _leaf(leaf: str, pairs: Sequence[Pair], counts: Counts, sent: Sequence[Round], heard: Heard) -> LeafCheck:
    ports = _ports_matter(pairs, heard.get(Variation.FIRST, {}))
    changed: dict[Variation, _Changed] = {
        each: _changed(pairs, sent, heard, each) for each in Variation if each is not Variation.FIRST
    }
    steady = _none(changed[Variation.AGAIN])
    hashed = {
        each: _inverse(_none(changed[each])) if steady is Answer.YES else Answer.UNKNOWN
        for each in (Variation.QPN, Variation.DSCP)
    }
    reach = tuple(_reach(counts, hop) for hop in sorted({leg.hop for leg in counts.sent}))
    findings = (
        *_of_hash(leaf, ports, steady, hashed, changed),
        *_silent(pairs, counts),
        *(_of_replies(pairs, counts) if steady is not Answer.NO else ()),
        *(_of_choices(leaf, counts) if Answer.NO not in (ports, steady) else ()),
    )
    return LeafCheck(
        leaf, len(pairs), counts.sent.total(), counts.replied.total(), ports, steady, hashed[Variation.QPN],
        hashed[Variation.DSCP], reach, findings,
    )  # fmt: skip


def _ports_matter(pairs: Sequence[Pair], replies: Mapping[int, Replies]) -> Answer:
    """Return whether the leaf's choice depends on the port: no, if many ports of a pair took one of several links."""
    found = Answer.UNKNOWN
    for pair in pairs:
        received = replies.get(pair.src_ip, {})
        seen = Counter(
            address for one, address in received.items() if one.dst_ip == pair.dst_ip and one.ttl == FIRST_HOP
        )  # fmt: skip
        if len(seen) > 1:
            return Answer.YES
        if seen.total() >= SAMPLE and len({step.to for step in pair.steps[0]}) > 1:
            found = Answer.NO
    return found


class _Changed(NamedTuple):
    """Ports that took another path in a later round: by the hop of the first difference; and how many were compared."""

    compared: int
    at: Counter[int]


def _changed(pairs: Sequence[Pair], sent: Sequence[Round], heard: Heard, variation: Variation) -> _Changed:
    first, later = heard.get(Variation.FIRST, {}), heard.get(variation, {})
    questions = next(each for each in sent if each.variation is variation).questions
    compared, at = 0, Counter[int]()
    for pair in pairs:
        before, after = first.get(pair.src_ip, {}), later.get(pair.src_ip, {})
        ports = dict.fromkeys(one.port for one in questions.get(pair.src_ip, ()) if one.dst_ip == pair.dst_ip)
        for port in ports:
            both = [
                (hop, before[one], after[one])
                for hop in hops_of(pair)
                if (one := Question(pair.dst_ip, port, hop)) in before and one in after
            ]
            compared += bool(both)
            at.update([next(hop for hop, old, new in both if old != new)] if any(o != n for _, o, n in both) else [])
    return _Changed(compared, at)


def _none(changed: _Changed) -> Answer:
    if changed.at:
        return Answer.NO
    return Answer.YES if changed.compared >= SAMPLE else Answer.UNKNOWN


def _inverse(answer: Answer) -> Answer:
    return {Answer.YES: Answer.NO, Answer.NO: Answer.YES}.get(answer, answer)


def _reach(counts: Counts, hop: int) -> Reach:
    return Reach(hop, tuple(sorted(counts.links(hop))), tuple(sorted(_unseen(_open_choices(counts, hop)))))


def _steps(pairs: Sequence[Pair], hop: int) -> list[Step]:
    """Return the links by which probes may come in at a hop; pairs of one pod have fewer hops than others."""
    return [step for pair in pairs if hop in hops_of(pair) for step in pair.steps[hop - FIRST_HOP]]


def _of_hash(
    leaf: str, ports: Answer, steady: Answer, hashed: Mapping[Variation, Answer], changed: Mapping[Variation, _Changed]
) -> Iterator[Finding]:
    if ports is Answer.NO:
        yield Finding(FindingKind.ADDRESSES_ONLY, f"{leaf} sends every source port of two NICs over one next hop")
    if steady is Answer.NO:
        yield Finding(FindingKind.UNSTEADY, _differing(leaf, changed[Variation.AGAIN], "probed again"))
    for variation, kind in ((Variation.QPN, FindingKind.QPN), (Variation.DSCP, FindingKind.DSCP)):
        if hashed[variation] is Answer.YES:
            yield Finding(kind, _differing(leaf, changed[variation], f"with another {variation.value}"))


def _differing(leaf: str, changed: _Changed, what: str) -> str:
    hop = min(changed.at)
    by = leaf if hop == FIRST_HOP else f"a switch at hop {hop - 1} from {leaf}"
    return f"{changed.at.total()} of {changed.compared} ports take another path {what}: {by} chooses differently"


def _silent(pairs: Sequence[Pair], counts: Counts) -> Iterator[Finding]:
    for leg, sent in counts.sent.items():
        silent, seen = sent - counts.replied[leg], counts.links(leg.hop)
        steps = _steps([pair for pair in pairs if len(pair.steps) == leg.hops], leg.hop)
        never = _never_replying(counts, leg)
        # A few probes may miss a silent switch more often than its share of the links.
        share = max(silent / sent, sum(step.to in never for step in steps) / len(steps))
        if share > MAX_SILENCE:
            routers = listed({step.to for step in steps if step.link not in seen}) or "routers"
            yield Finding(
                FindingKind.SILENT, f"{silent} of {sent} probes that expire at hop {leg.hop} had no reply: {routers}"
            )


def _never_replying(counts: Counts, leg: Leg) -> set[str]:
    """Return the switches that forwarded probes and replied to none."""
    return {
        switch
        for (where, switch), ports in counts.passed.items()
        if where == leg and ports >= PASSED and (leg, switch) not in counts.replying
    }


def _of_replies(pairs: Sequence[Pair], counts: Counts) -> Iterator[Finding]:
    """Yield what the addresses of replies do not name."""
    strangers, links = (
        counts.named[Named.NOTHING],
        {step.link for pair in pairs for steps in pair.steps for step in steps},
    )
    if strangers.total() == counts.replied.total() > 0:
        yield Finding(
            FindingKind.UNNAMED, f"{len(strangers)} unknown addresses reply, at the ends of {len(links)} links"
        )
        return
    for named, kind, text in (
        (Named.SWITCH, FindingKind.LOOPBACK, "reply from an address of no port"),
        (Named.ANOTHER_PORT, FindingKind.ROUTE_BACK, "reply from another port than the one by which the probe came in"),
        (Named.NOTHING, FindingKind.ASTRAY, "reply where no path leads over them"),
    ):
        if counts.named[named]:
            yield Finding(kind, f"{listed(counts.named[named])} {text}")
    for group in sorted(counts.merged | _one_of_each(counts)):
        yield Finding(FindingKind.MERGED, f"no reply distinguishes {listed(group)}")


def _one_of_each(counts: Counts) -> set[tuple[str, ...]]:
    """Return the parallel cables of the leaf of which every source sees exactly one: errors name the route back."""
    found: dict[tuple[str, ...], list[Counter[str]]] = {}
    for group, seen in counts.groups.items():
        if group.hop == FIRST_HOP:
            found.setdefault(group.links, []).append(seen)
    return {
        links
        for links, each in found.items()
        if all(len(seen) == 1 for seen in each) and sum(seen.total() - 1 for seen in each) >= SAMPLE
    }


def _open_choices(counts: Counts, hop: int) -> dict[Choice, Counter[str]]:
    """Return what switches chose of several links that replies distinguish."""
    hidden = {link for links in counts.merged | _one_of_each(counts) for link in links}
    return {
        choice: seen
        for choice, seen in counts.choices.items()
        if choice.hop == hop and len(choice.links) > 1 and not hidden.intersection(choice.links)
    }


def _unseen(choices: Mapping[Choice, Counter[str]]) -> frozenset[str]:
    """Return the links that switches never chose, where they chose so often that this is no accident.

    Of several choices each needs more probes, for each is another occasion for such an accident.
    """
    limit = MIN_MISSES / max(len(choices), 1)
    certain = [(choice, seen) for choice, seen in choices.items() if _missed(len(choice.links), seen.total()) < limit]
    return frozenset(link for choice, seen in certain for link in choice.links if link not in seen)


def _of_choices(leaf: str, counts: Counts) -> Iterator[Finding]:
    """Yield the links that no port leads over: a tier that repeats the tier below, else single links."""
    for hop in sorted({leg.hop for leg in counts.sent}):
        choices = _open_choices(counts, hop)
        if hop > FIRST_HOP and _is_polarised(choices, counts.crossed):
            used, wide = sum(map(len, choices.values())), sum(len(choice.links) for choice in choices)
            by = listed({choice.by for choice in choices})
            yield Finding(
                FindingKind.POLARISED, f"from {leaf}, {by} use {used} of {wide} links: they repeat the tier below"
            )
            continue
        unseen = _unseen(choices)
        silent = sum(count - counts.replied[leg] for leg, count in counts.sent.items() if leg.hop == hop)
        if unseen and silent:
            yield Finding(FindingKind.UNSEEN, f"no reply came by {listed(unseen)}, and {silent} probes had none")
        elif unseen:
            yield Finding(FindingKind.UNSEEN, f"from {leaf} no port leads over {listed(unseen)}")


def _missed(links: int, probes: int) -> float:
    """Return the expected number of links that so many probes miss under a hash that mixes."""
    return links * float((1 - 1 / links) ** probes)


def _is_polarised(choices: Mapping[Choice, Counter[str]], crossed: set[str]) -> bool:
    """Return whether a tier uses few of its links; one to a switch without replies is in use if probes crossed it."""
    used = sum(len(crossed.intersection(choice.links).union(seen)) for choice, seen in choices.items())
    expected = sum(len(choice.links) - _missed(len(choice.links), seen.total()) for choice, seen in choices.items())
    return used <= POLARISED * expected and sum(seen.total() for seen in choices.values()) >= SAMPLE
