"""Check by the probe agents whether paths from a leaf can be steered by source ports, before any job relies on it.

A leaf is checked when an agent attaches there, unless it was found fit before. Until then its jobs wait; a job whose
flows leave a leaf that is not fit is refused with the finding and its remedy. Leaves are checked at the same time,
within the budgets of switches; leaves without agents are left to the search, which names the missing agent.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from heddle.controller.model.effect import Note
from heddle.controller.model.error import NoAdmissiblePlanError, UnavailableError
from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.job import JobRequest
from heddle.controller.probe_sessions.assembly import Lie
from heddle.controller.probe_sessions.finder import switch_at_end
from heddle.controller.probe_sessions.leaves import leaves_that_send
from heddle.controller.probe_sessions.pairs import pairs_of
from heddle.controller.probe_sessions.sending import Efforts, ProbeSender, Replies
from heddle.controller.probe_sessions.sessions import Header
from heddle.foundation.traffic_class import DATA
from heddle.probing.check.conclusions import LeafCheck, concluded
from heddle.probing.check.places import Places
from heddle.probing.check.questions import Variation, rounds
from heddle.probing.probe import Question

_LOG = logging.getLogger("heddle.controller")
MAX_DESTINATIONS = 2
"""Leaves that a leaf's probes go to: the next, and one half of the fabric further."""
MAX_PORTS = 64
"""Ports that a leaf's choices are observed with: 300 probes in all for two tiers; the search sees more."""
SETTLE_S = 0.1
"""Agents that attach together take part in one check."""
MAX_TOGETHER = 16
"""Leaves that are checked at the same time: reading the replies of one takes the loop some milliseconds a round."""
MAX_ATTEMPTS = 3
"""A check whose agents go away is made so often again."""


@dataclass
class Contact:
    """The newest conclusion about a leaf, if there is one, and the check that is under way or due."""

    check: LeafCheck | None = None
    task: "asyncio.Task[None] | None" = None
    checks: int = 0
    failure: str = ""
    """Why the newest check came to no conclusion."""
    again: bool = False
    """Whether an agent has attached since the check began."""


@dataclass
class FirstContact:
    """The conclusions by leaf. `attached` begins checks; `admit` waits for those that a job depends on."""

    sender: ProbeSender
    fabric: Fabric
    places: Places
    note: Callable[[Note], None]
    leaves: dict[str, Contact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(MAX_TOGETHER)
        self._leaf_of = {nic.ip: nic.port.switch for nic in self.fabric.nics}

    def attached(self, addresses: Iterable[int]) -> None:
        """Begin to check the leaves of NICs whose agent has attached, where they are not known to be fit."""
        for leaf in {self._leaf_of[address] for address in addresses if address in self._leaf_of}:
            contact = self.leaves.setdefault(leaf, Contact())
            if contact.task is not None:
                contact.again = True
            elif contact.check is None or not contact.check.is_fit:
                contact.task = asyncio.create_task(self._run(leaf, contact))

    async def admit(self, request: JobRequest) -> None:
        """Return once the leaves that a job sends from are checked.

        Raises NoAdmissiblePlanError for one that is not fit, UnavailableError for one that agents could not check.
        """
        leaves = [leaf for leaf in leaves_that_send(self.fabric, request) if leaf in self.leaves]
        if tasks := [task for leaf in leaves if (task := self.leaves[leaf].task) is not None]:
            await asyncio.wait(tasks)
        unfit = [check for leaf in leaves if (check := self.leaves[leaf].check) is not None and not check.is_fit]
        if unfit:
            finding = next(each for each in unfit[0].findings if each.refuses)
            more = f" ({len(unfit) - 1} more leaves are not fit)" if len(unfit) > 1 else ""
            why = f"{unfit[0].leaf} cannot be steered by source ports: {finding.text}{more}"
            raise NoAdmissiblePlanError(f"{why}; {finding.kind.rule.remedy}; then attach a probe agent there again")
        failed = [leaf for leaf in leaves if self.leaves[leaf].check is None and self.leaves[leaf].failure]
        if failed and self._nics(failed[0]):
            raise UnavailableError(f"{failed[0]} could not be checked for steering: {self.leaves[failed[0]].failure}")

    async def close(self) -> None:
        """End the checks under way."""
        tasks = [contact.task for contact in self.leaves.values() if contact.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, leaf: str, contact: Contact) -> None:
        """Check a leaf, again where its agents changed meanwhile and it is not known to be fit."""
        try:
            await self._attempts(leaf, contact)
        except Exception as fault:
            _LOG.exception("the check of %s failed", leaf)
            contact.failure = f"the check failed: {fault}"
        finally:
            contact.task = None

    async def _attempts(self, leaf: str, contact: Contact) -> None:
        for _ in range(MAX_ATTEMPTS):
            await asyncio.sleep(SETTLE_S)
            contact.again = False
            async with self._turns:
                check, contact.failure = await self._checked(leaf)
            contact.checks += 1
            if check is not None:
                contact.check = check
                self._report(check)
            is_fit = check is not None and check.is_fit
            if is_fit or not (contact.again or contact.failure):
                return

    def _nics(self, leaf: str) -> list[Nic]:
        """Return the NICs of a leaf with an agent."""
        return [nic for nic in self.fabric.nics_of_leaf[leaf] if nic.ip in self.sender.agents.by_ip]

    async def _checked(self, leaf: str) -> tuple[LeafCheck | None, str]:
        """Return the conclusion about a leaf; None where it has no agents or peers, or with why agents failed."""
        pairs = await asyncio.to_thread(pairs_of, self.fabric, self._nics(leaf), MAX_DESTINATIONS)
        if not pairs:
            return None, ""
        to_send = rounds(pairs, DATA.dscp, max_ports=MAX_PORTS)
        heard: dict[Variation, Replies] = {}
        efforts, reader = Efforts(), _CheckReader(self.sender, self.places)
        for each in to_send:
            header = Header(each.qpn, each.dscp)
            heard[each.variation] = await self.sender.replies(each.questions, reader, efforts, header)
            if efforts.lost:
                return None, next(iter(efforts.lost.values()))
            if not any(heard[each.variation].values()):
                break  # all is silent: the other rounds would be as well
        (check,) = await asyncio.to_thread(concluded, pairs, to_send, heard, self.places)
        return check, ""

    def _report(self, check: LeafCheck) -> None:
        for finding in check.findings:
            severity = "error" if finding.refuses else "warning"
            self.note(Note(severity=severity, subject=check.leaf, text=f"{finding.text}; {finding.kind.rule.remedy}"))
        seen = ", ".join(f"{len(reach.seen)} links seen at hop {reach.hop}" for reach in check.reach)
        conclusions = (
            f"source ports matter: {check.ports_matter}, repeats agree: {check.repeats_agree}, "
            f"queue pair number hashed: {check.qpn_hashed}, DSCP hashed: {check.dscp_hashed}; {seen}"
        )
        state = "fit for" if check.is_fit else "not fit for"
        severity = "info" if check.is_fit else "warning"
        text = f"{state} steering by source ports: {conclusions}; {check.replied} of {check.sent} probes had a reply"
        self.note(Note(severity=severity, subject=check.leaf, text=text))


class _CheckReader:
    """Reads replies for a check, which concludes from unknown addresses too; a switch that no path has is a lie."""

    def __init__(self, sender: ProbeSender, places: Places) -> None:
        self._sender, self._places = sender, places

    def read(self, src_ip: int, question: Question, address: int) -> str | None:
        """Return the switch that replied, "" for one that no address names, None for one that cannot reply there."""
        link = self._places.link_at.get(address)
        if link is None:
            return ""
        switch, agents = switch_at_end(link), self._sender.agents
        if switch in self._sender.hops.switches(src_ip, question.dst_ip, question.ttl):
            return switch
        if (session := agents.by_ip.get(src_ip)) is not None:
            agents.lied(session, Lie.WRONG_HOP)
        return None


def answers_of(contacts: Mapping[str, Contact]) -> Counter[tuple[str, str, str]]:
    """Return (leaf, question, answer) of every conclusion."""
    return Counter(
        (leaf, question, str(getattr(contact.check, question)))
        for leaf, contact in contacts.items()
        if contact.check is not None
        for question in ("ports_matter", "repeats_agree", "qpn_hashed", "dscp_hashed")
    )
