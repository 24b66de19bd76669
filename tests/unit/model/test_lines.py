"""The lines that `heddle replay` prints: their texts, and that every class words a value of itself."""

from types import SimpleNamespace
from typing import Any, get_args

import pytest

from heddle.controller.model.cabling import CablingPolicy, Verdict
from heddle.controller.model.effect import (
    Announce,
    Compile,
    Condition,
    Diagnose,
    Drained,
    Effect,
    EndSession,
    FindPorts,
    Follow,
    GiveUp,
    Install,
    NetworksChanged,
    Note,
    Persist,
    Place,
    ReadRules,
    Reply,
    Solve,
    TopologyChanged,
    Wake,
)
from heddle.controller.model.error import NotFoundError
from heddle.controller.model.event import (
    CablesJudged,
    Compiled,
    Congested,
    Diagnosed,
    Drain,
    Due,
    Event,
    Heard,
    Installed,
    InstallFailed,
    InstallLags,
    JudgedCable,
    NotFollowed,
    PortsFound,
    PortStatus,
    Release,
    Renew,
    RulesRead,
    Solved,
    Submit,
    Suggest,
    Suggested,
    SwitchCaughtUp,
    SwitchDown,
    SwitchUp,
    Tick,
    Withdraw,
)
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.found_cabling import Rejoined
from heddle.controller.model.health import Health
from heddle.controller.model.moves import MAX_MOVES, MoveLimit, Whose
from heddle.controller.model.network_event import ApplyNetwork, DropUnknownVpcs, ForgetGateway
from heddle.controller.model.plan import Certificate, Infeasible
from heddle.controller.model.rule import SwitchRules
from heddle.controller.model.traits import Printed


def some(**fields: Any) -> Any:
    """Return a value that has what a line reads of it."""
    return SimpleNamespace(**fields)


JOB, EMPTY, UP = some(job_id="a", ranks=("h1-n0", "h2-n0")), SwitchRules(rules=(), groups=()), Health()
HOT = [some(port=f"leaf{n}:1", measured_bps=n * 1_000_000) for n in range(1, 7)]
STEP = some(changes={"leaf1": ("one", "two"), "spine1": ("one",)})
PROOF = Certificate()
EVENTS = [
    (Submit(reply=1, request=JOB), "caller 1: submit job a, 2 ranks", "a"),
    (Submit(reply=1, request=JOB, preview=True), "caller 1: preview job a, 2 ranks", "a"),
    (Suggest(reply=2, shape=some(ranks=4)), "caller 2: suggest places for 4 ranks", ""),
    (Withdraw(reply=3), "caller 3 left", ""),
    (Renew(reply=4, job_id="a"), "caller 4: renew job a", "a"),
    (Release(reply=5, job_id="a"), "caller 5: release job a", "a"),
    (SwitchUp(switch="leaf1", ports={}, installed=EMPTY), "switch leaf1 connected, 0 rules installed", ""),
    (SwitchDown(switch="leaf1", reason="reset"), "switch leaf1 disconnected: reset", ""),
    (PortStatus(switch="leaf1", port=2, up=True), "port leaf1:2 up", ""),
    (PortStatus(switch="leaf1", port=2, up=False), "port leaf1:2 down", ""),
    (RulesRead(switch="leaf1", installed=EMPTY), "rules of leaf1 read: 0", ""),
    (RulesRead(switch="leaf1", installed=EMPTY, audit=3), None, ""),
    (Drain(reply=6, target="spine1"), "caller 6: drain spine1", ""),
    (Drain(reply=6, target="spine1", undrain=True, dry_run=True), "caller 6: undrain spine1, dry run", ""),
    (Congested(hot=()), None, ""),
    (CablesJudged(cables=()), "bad cables: none", ""),
    (CablesJudged(cables=(JudgedCable(cable="leaf1:1>spine2:1", loss=0.1),)), "bad cables: leaf1:1>spine2:1", ""),
    (
        Congested(hot=tuple(HOT), stale=("leaf9:1",)),
        "congested: leaf1:1 (1.0 Mbit/s), leaf2:1 (2.0 Mbit/s), leaf3:1 (3.0 Mbit/s), leaf4:1 (4.0 Mbit/s) and 2 more; "
        "stale: leaf9:1",
        "",
    ),
    (Congested(hot=(), storms=("h1-n0",)), "congested: none; NICs that pause without end: h1-n0", ""),
    (Solved(token=1, outcome=Infeasible(why="full"), solve_ns=1_234_567), "planned in 1.2 ms: no plan: full", ""),
    (Solved(token=1, outcome=NotFoundError("gone"), solve_ns=0), "planned in 0.0 ms: no plan: gone", ""),
    (
        PortsFound(token=1, found=some(ports={"f": 1}, missing={}, probes=9), search_ns=1),
        "1 ports found by 9 probes, 0 flows have none",
        "",
    ),
    (
        Compiled(token=1, underlay={}, differing=frozenset({"leaf1"}), pins={"a": some(), "b": some()}),
        "underlay compiled: 1 switches differ",
        "a b",
    ),
    (Suggested(token=1, outcome=()), "places found", ""),
    (Suggested(token=1, outcome=NotFoundError("none free")), "no places: none free", ""),
    (Installed(token=1, install_ns=5_000_000), "acknowledged in 5.0 ms", ""),
    (InstallFailed(token=1, switch="leaf1", reason="full"), "installation failed on leaf1: full", ""),
    (ApplyNetwork(reply=7), "caller 7: apply nothing", ""),
    (
        ApplyNetwork(reply=7, vpcs=(some(), some()), load_balancers=(some(),), border=()),
        "caller 7: apply 2 VPCs, 1 load balancers, a border of 0 rules",
        "",
    ),
    (InstallLags(token=1, switches=frozenset({"leaf2", "leaf1"})), "no reply to a barrier yet from leaf1, leaf2", ""),
    (SwitchCaughtUp(switch="leaf1"), "leaf1 has caught up", ""),
    (ForgetGateway(reply=1, gateway_id="gw1"), "ForgetGateway", ""),
    (DropUnknownVpcs(reply=1), "DropUnknownVpcs", ""),
    (Heard(changes={PortRef("leaf1", 1): None}), "1 ports hear another neighbour", ""),
    (Diagnosed(token=1, verdict=None), "cabling: no causes found", ""),
    (Diagnosed(token=1, verdict=Verdict(causes=(some(),))), "cabling: 1 causes found", ""),
    (NotFollowed(token=1, reason="no journal"), "the cabling as found is not followed: no journal", ""),
    (Tick(), None, ""),
    (Due(), None, ""),
]
EFFECTS = [
    (Solve(token=1, requests=(JOB,), kept=(), health=UP), "plan job a beside 0 jobs; no moves", "a"),
    (
        Solve(
            token=1, requests=(), kept=(some(), some()), health=UP, subject="b",
            limit=MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES),
        ),
        "plan 2 running jobs, for b; moves: any unlimited",
        "b",
    ),
    (FindPorts(token=1, flows=(some(),), ways=2), "find the source ports of 1 flows by probes", ""),
    (
        Compile(token=1, health=UP, base=UP, before={}, pinned=()),
        "compile the underlay for what is out of use now",
        "",
    ),
    (Place(token=1, shape=some(ranks=3), kept=(), health=UP), "find places for 3 ranks beside 0 jobs", ""),
    (Install(token=1, steps=(STEP,)), "install 3 changes on 2 switches (leaf1, spine1)", ""),
    (Install(token=1, steps=(STEP,), after_ms=9), "install 3 changes on 2 switches (leaf1, spine1) after 9 ms", ""),
    (GiveUp(token=1), "end the installation without the switches that lag", ""),
    (ReadRules(switch="leaf1"), None, ""),
    (Reply(reply=1, outcome=NotFoundError("gone")), "caller 1: refused: gone", ""),
    (Reply(reply=1, outcome=4), "caller 1: done (4)", ""),
    (Reply(reply=1, outcome=(some(), some())), "caller 1: 2 places", ""),
    (Reply(reply=1, outcome=Drained(flows_moved=3, certificate=PROOF)), "caller 1: drained, 3 flows moved", ""),
    (
        Reply(reply=1, outcome=Drained(flows_moved=3, certificate=PROOF, undrain=True)),
        "caller 1: in use again, 3 flows moved",
        "",
    ),
    (
        Announce(plan=some(job_id="a", generation=2, state="running", reason="job b arrived")),
        "publish job a generation 2 running: job b arrived",
        "a",
    ),
    (TopologyChanged(generation=1), None, ""),
    (NetworksChanged(generation=2), "publish generation 2 of the virtual networks", ""),
    (EndSession(gateway_id="gw1", session=7), "end session 7 of gw1", ""),
    (Note(severity="info", subject="leaf1", text="connected"), "info: leaf1: connected", "leaf1"),
    (Wake(after_ms=1), None, ""),
    (Persist(values={("drain", "spine1"): "spine1"}), "write 1 values to the journal", ""),
    (
        Diagnose(
            token=1, heard={}, before={}, down=frozenset(), health=UP, left_out=frozenset(),
            policy=CablingPolicy.EXCLUDE, max_percent=25,
        ),
        "diagnose the cabling from what 0 ports hear",
        "",
    ),
    (Follow(token=1, found=(Rejoined(("a", "b"), ()),)), "follow 2 cables as found", ""),
    (Condition(kind="cabling", subject="cabling", text="x", raised=True), "cabling raised: x", ""),
    (Condition(kind="cabling", subject="cabling", text="x", raised=False), "cabling cleared: x", ""),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text", "jobs"), EVENTS + EFFECTS)
def test_an_event_or_effect_is_one_line_about_its_jobs(value, text, jobs):
    assert value.line() == (None if text is None else (text, frozenset(jobs.split())))


def test_every_event_and_effect_with_words_of_its_own_is_in_these_tables():
    kinds = {kind for kind in (*get_args(Event), *get_args(Effect)) if "line" in vars(kind)}
    assert kinds - {type(value) for value, _, _ in EVENTS + EFFECTS} == set()


def test_every_event_and_effect_is_printed_and_holds_no_more_than_its_fields():
    for kind in (*get_args(Event), *get_args(Effect)):
        assert issubclass(kind, Printed)
        assert not hasattr(kind.__new__(kind), "__dict__")


def test_a_value_without_words_of_its_own_is_its_class_and_its_job():
    class Renamed(Printed):
        job_id = "a"

    class Elsewhere(Printed):
        pass

    assert Renamed().line() == ("Renamed", frozenset({"a"}))
    assert Elsewhere().line() == ("Elsewhere", frozenset())
