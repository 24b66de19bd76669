"""Judge the links between switches turn by turn: raise those that lose probes, and clear those that no longer do.

raised     by the shortest of some windows in which the losses are certain
judged     again each time that so many probes crossed a raised link as would have shown ENOUGH losses
cleared    where they have shown a tenth of them at most, or after its cable was taken off and put back
neither    where no probe crosses: silence is no repair

A judge takes one turn at a time; it reads no clock.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from heddle.controller.mesh.evidence import Crossed, Evidence, Turn, account_of
from heddle.controller.mesh.location import Explained, located
from heddle.controller.planner.ground.clos import Topology

WINDOWS_S = (20.0, 60.0, 180.0, 600.0)
"""A link that begins to lose much is found by a short window, one that loses little by a long one."""
ENOUGH = 12
"""A sound link clears itself by chance once in e^12 times, 160,000."""
CLEAR_PART = 0.1
RELINK_S = 5.0
"""Who takes a cable off, cleans it and puts it back takes longer; a link that flaps is back sooner."""


@dataclass(slots=True, kw_only=True)
class _Raised:
    """A link that loses this share of probes; how many crossed it, and were lost, since it was judged last."""

    loss: float
    sent: int = 0
    lost: int = 0


class Judge:
    """The links of one fabric. `raised` has the share of probes that each bad link loses, by its number."""

    def __init__(self, topology: Topology, *, both_ways: bool = False) -> None:
        """Begin; probes may cross each cable `both_ways`, which cannot be distinguished then."""
        self.crossed = Crossed(topology, both_ways)
        self.others: Counter[Explained] = Counter()
        self.queued = 0
        self._evidence = Evidence(WINDOWS_S[-1])
        self._raised: dict[int, _Raised] = {}
        self._turns = 0

    @property
    def raised(self) -> dict[int, float]:
        """Return by link the share of probes that it loses."""
        return {link: each.loss for link, each in self._raised.items()}

    def take(self, turn: Turn) -> None:
        """Judge by one turn more."""
        self._turns += 1
        account = account_of(self.crossed, turn, self._turns)
        self.queued += account.queued
        self._evidence.add(account)
        for link, each in list(self._raised.items()):
            each.sent += int(account.sent[link])
            each.lost += int((account.lost == link).any(axis=1).sum())
            self._judge_again(link, each)
        self.others = Counter()
        for account in self._evidence.windows(WINDOWS_S):
            found = located(self.crossed, account)
            self.others |= found.others
            for link, loss in found.links.items():
                self._raised.setdefault(link, _Raised(loss=loss))

    def relinked(self, cables: Iterable[int]) -> None:
        """Judge cables anew that were taken off and put back."""
        links = {link for cable in cables for link in (cable, cable + self.crossed.topology.cables)}
        self._forget(frozenset(links))

    def _judge_again(self, link: int, each: _Raised) -> None:
        expected = each.sent * each.loss
        if expected < ENOUGH:
            return
        if each.lost <= CLEAR_PART * expected:
            self._forget(frozenset({link}))
        else:
            self._raised[link] = _Raised(loss=each.lost / each.sent)

    def _forget(self, links: frozenset[int]) -> None:
        for link in links & self._raised.keys():
            del self._raised[link]
        if links:
            self._evidence.forget(links)


class Relinks:
    """The cables that are off, since when."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def update(self, down: frozenset[str], now_s: float) -> frozenset[str]:
        """Return the cables that have come back after RELINK_S or more."""
        back = {cable: since_s for cable, since_s in self._since_s.items() if cable not in down}
        self._since_s = {cable: self._since_s.get(cable, now_s) for cable in down}
        return frozenset(cable for cable, since_s in back.items() if now_s - since_s >= RELINK_S)
