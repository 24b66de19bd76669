"""Judge what Heddle did, not the machine: shown, not shown because the machine was busy, or failed. Pure.

                      decisions right               a decision is missing or wrong
    checks hold       SHOWN                         FAILED
    a measure missed  machine busy: NOT SHOWN       FAILED
                      machine quiet: FAILED

A *decision* is what the controller did: paths, rules, names. It does not depend on how fast the machine is: a run waits
for it. So a missing decision is never excused, but where its cause was absent too, and the machine was busy: a hog that
got no processor has congested nothing. A *measure* depends on the machine as well: times, rates, packets lost or late.
A miss is repeated, and one run that shows everything is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from heddle.mininet_topos.host.machine import MachineUse

MAX_STOLEN_SHARE = 0.01
MAX_OTHERS_PROCESSORS = 0.3
MAX_WAITED_SHARE = 0.4
MAX_LATE_SHARE = 0.05
MAX_LATE_NS = 16_000_000
"""What a machine may take from a lab and still count as quiet. A NIC that wakes up 16 ms late sends a burst for which a
queue has no room below its pause threshold."""

MIN_CARRIED = 0.85
"""Rates are relative to what the machine carried before, but to no less than this part of the planned ones."""


class Verdict(StrEnum):
    """What a run or a scene came to, best first."""

    SHOWN = "shown"
    NOT_SHOWN = "not shown"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition of a scene's verdict, with the figures that decided it; `decision`: of what the controller did."""

    text: str
    holds: bool
    decision: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One planned run of a scene.

    `problems` are packets that the emulation lost or was late with, `faults` what no machine explains, such as packets
    at a NIC that they are not for. `caused`: what the controller had to react to was measured. `carried_part` is the
    part of the planned rates that arrived before it. `machine` is None where it was not measured: that excuses nothing.
    """

    checks: tuple[Check, ...]
    line_rate_bps: int = 0
    problems: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    caused: bool = True
    carried_part: float = 1.0
    machine: MachineUse | None = None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on this attempt alone."""
        if self.faults or (self.undecided and (self.caused or not self.excused)):
            return Verdict.FAILED
        if all(check.holds for check in self.checks) and not self.problems:
            return Verdict.SHOWN
        return Verdict.NOT_SHOWN if self.excused else Verdict.FAILED

    @property
    def undecided(self) -> bool:
        """Return whether a decision is missing or wrong."""
        return any(check.decision and not check.holds for check in self.checks)

    @property
    def missed(self) -> bool:
        """Return whether a measure alone was missed, which another attempt may not miss."""
        return self.verdict is not Verdict.SHOWN and not self.faults and not (self.undecided and self.caused)

    @property
    def overloaded(self) -> bool:
        """Return whether the machine did not carry the planned rates even before anything happened."""
        return self.carried_part < MIN_CARRIED

    @property
    def excused(self) -> bool:
        """Return whether the machine was busy."""
        return self.machine is not None and bool(why_busy(self.machine))


def verdict_of(attempts: Sequence[Attempt]) -> Verdict:
    """Return the verdict on all attempts at one scene.

    A fault or a wrong decision in any of them fails. Otherwise one attempt that shows the scene is enough; where none
    does, one that the machine excuses is: another attempt might have shown it.
    """
    if any(attempt.verdict is Verdict.FAILED and not attempt.missed for attempt in attempts):
        return Verdict.FAILED
    found = {attempt.verdict for attempt in attempts}
    return next((verdict for verdict in Verdict if verdict in found), Verdict.FAILED)


def verdict_of_run(*, valid: bool, exact: bool, faults: Sequence[str], machine: MachineUse | None) -> Verdict:
    """Return the verdict on a planned run of a workload: valid runs must be on their paths, packet by packet."""
    if faults or (valid and not exact):
        return Verdict.FAILED
    if valid:
        return Verdict.SHOWN
    return Verdict.NOT_SHOWN if machine is not None and why_busy(machine) else Verdict.FAILED


def missed_text(attempt: Attempt) -> str:
    """Return what an attempt has missed, for the progress of a demo."""
    texts = [*attempt.problems, *(check.text for check in attempt.checks if not check.holds)]
    return f"missed: {texts[0]}; {busy_text(attempt.machine)}"


def why_busy(use: MachineUse) -> str:
    """Return the figures by which a machine counts as busy; empty if it was quiet."""
    late_share = use.late_ns / max(1.0, use.seconds * 1e9)
    figures = (
        (use.stolen_share > MAX_STOLEN_SHARE, f"its host took {use.stolen_share:.0%} of the processors' time"),
        (
            use.others_processors > MAX_OTHERS_PROCESSORS,
            f"other programs used {use.others_processors:.1f} of {use.processors} processors",
        ),
        (use.waited_share > MAX_WAITED_SHARE, f"the lab waited {use.waited_share:.0%} of the time for a processor"),
        (
            use.max_late_ns > MAX_LATE_NS or late_share > MAX_LATE_SHARE,
            f"NICs woke up to {use.max_late_ns / 1e6:.0f} ms late, {late_share:.0%} of the time in all",
        ),
    )
    return ", ".join(text for is_over, text in figures if is_over)


def busy_text(use: MachineUse | None) -> str:
    """Return the sentence for what was not shown: that this machine was busy, with the figures."""
    why = "" if use is None else why_busy(use)
    return f"this machine was busy ({why})" if why else "this machine was quiet"
