"""`heddle demo --spray`: its options, the paths of each mode, and what a run comes to; without a lab."""

import os
from dataclasses import replace
from io import StringIO

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from heddle.controller.api.path_sets import every_path
from heddle.controller.api.translate import flow_to
from heddle.controller.config import parse_fabric
from heddle.controller.model.error import InputError
from heddle.controller.model.health import Health
from heddle.controller.model.plan import Plan
from heddle.controller.model.srv6 import sids_of
from heddle.controller.planner.solve import solve
from heddle.mininet_topos.demo.results.judgement import Verdict
from heddle.mininet_topos.demo.spraying.figures import SprayRun, off_paths
from heddle.mininet_topos.demo.spraying.session import FABRIC, LOAD, spray_options
from heddle.mininet_topos.demo.spraying.sets import ALL, MODES, SprayMode, sprayed_flows
from heddle.mininet_topos.demo.spraying.table import failures, summary, table
from heddle.mininet_topos.host.machine import MachineUse
from heddle.mininet_topos.measure.flow_run import Capture, FiveTuple, Integrity, RunResult
from heddle.mininet_topos.measure.spray_paths import paths_on
from heddle.mininet_topos.traffic.workloads import compute_nics, permutation, sprayed, with_rate
from heddle.programs.lab.demo_command import demo

LAB = parse_fabric(FABRIC, "the demo's fabric")
QUIET, BUSY = MachineUse(seconds=2.5, processors=2), MachineUse(seconds=2.5, processors=2, stolen_share=0.5)
RUN = SprayRun(
    mode=MODES[-1].name, planned=True, seed=1, slowest=0.999, mean=1.0, resent_packets=0, dropped_packets=0,
    off_paths=0, faults=(), machine=QUIET,
)  # fmt: skip


@pytest.fixture(scope="module")
def flows_with():
    def plan(paths: int, seed: int = 1):
        nics = compute_nics(LAB)
        workload = with_rate(permutation(nics, seed, 1.0), int(LOAD * nics[0].capacity_bps))
        found = solve(LAB, (sprayed(workload, paths).job,), health=Health())
        assert isinstance(found, Plan)
        write, sids = every_path(LAB), sids_of(LAB)
        return [flow_to(flow, sids=sids, write=write) for flow in found.jobs[0].flows]

    return plan


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_all_modes_have_the_flows_and_rates_of_the_plan_and_as_many_paths_as_named(flows_with, mode: SprayMode):
    flows = flows_with(mode.paths if mode.planned else ALL)
    found = sprayed_flows(flows, mode, 1, 2.5, paths_on(LAB))
    assert [(each.request.src_nic, each.request.dst_nic, each.request.rate_bps) for each in found] == [
        (flow.src_nic, flow.dst_nic, flow.rate_bps) for flow in flows
    ]
    assert {len(each.request.paths) for each in found} == {mode.paths}
    for each, flow in zip(found, flows, strict=True):
        assert {path.udp_source_port for path in each.request.paths} == each.links.keys()
        assert len(set(each.links.values())) == mode.paths
        if mode.planned and mode.paths > 1:
            assert [path.sid for path in each.request.paths] == [path.sid for path in flow.path_set.paths]
        ends = {LAB.nic_by_id[flow.src_nic].up_link, LAB.nic_by_id[flow.dst_nic].down_link}
        assert all(ends < links for links in each.links.values())


def test_planned_sets_load_all_links_evenly_and_drawn_ones_do_not(flows_with):
    def fullest(mode: SprayMode) -> float:
        load: dict[str, float] = {}
        for each in sprayed_flows(flows_with(mode.paths if mode.planned else ALL), mode, 1, 2.5, paths_on(LAB)):
            for links in each.links.values():
                for link in links & LAB.cable_by_link.keys():
                    load[link] = load.get(link, 0.0) + each.request.rate_bps / mode.paths / 10_000_000
        return max(load.values())

    assert {round(fullest(mode), 6) for mode in MODES if mode.planned} == {LOAD}
    assert min(fullest(mode) for mode in MODES if not mode.planned) > 1.4


def test_a_seed_draws_the_same_paths_again_and_another_one_others(flows_with):
    flows, mode = flows_with(ALL), MODES[0]
    assert sprayed_flows(flows, mode, 1, 1.0, paths_on(LAB)) == sprayed_flows(flows, mode, 1, 1.0, paths_on(LAB))
    assert sprayed_flows(flows, mode, 1, 1.0, paths_on(LAB)) != sprayed_flows(flows, mode, 2, 1.0, paths_on(LAB))


def test_a_packet_on_a_cable_that_its_port_does_not_name_is_off_its_paths(flows_with):
    flows = sprayed_flows(flows_with(2), MODES[3], 1, 1.0, paths_on(LAB))
    first = flows[0]
    src, dst = (LAB.nic_by_id[nic].ip for nic in (first.request.src_nic, first.request.dst_nic))
    data: dict[str, dict[FiveTuple, int]] = {}
    for port, links in first.links.items():
        for link in links:
            data[link] = {FiveTuple(src, dst, port): 7}
    empty = Integrity(tx_packets=0, rx_packets=0, dropped_packets=0)
    whole = RunResult(
        flows=(), nics={}, capture=Capture(data=data), queue_drops={}, integrity=empty, duration_ns=1,
        vswitchd_cpu_ns=0,
    )  # fmt: skip
    assert off_paths(LAB, flows, whole) == 0
    (port, other) = first.links
    stray = next(link for link in first.links[other] - first.links[port] if link in LAB.cable_by_link)
    data[stray][FiveTuple(src, dst, port)] = 3
    assert off_paths(LAB, flows, whole) == 3


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Verdict.SHOWN),
        ({"slowest": 0.9}, Verdict.FAILED),
        ({"slowest": 0.9, "machine": BUSY}, Verdict.NOT_SHOWN),
        ({"off_paths": 1, "machine": BUSY}, Verdict.FAILED),
        ({"planned": False, "slowest": 0.1}, Verdict.SHOWN),
        ({"planned": False, "faults": ("3 packets arrived damaged",)}, Verdict.FAILED),
    ],
)
def test_a_planned_run_has_its_rates_on_its_paths_or_the_machine_was_busy(change, verdict):
    run = replace(RUN, **change)
    assert run.verdict is verdict
    assert bool(failures([run])) == (verdict is Verdict.FAILED)


def test_the_table_has_a_row_a_mode_and_the_slowest_flow_of_each_seed():
    runs = [
        replace(RUN, mode=mode.name, planned=mode.planned, seed=seed, slowest=1.0 if mode.planned else 0.125 * seed)
        for seed in (1, 2)
        for mode in MODES
    ]
    console = Console(width=100, record=True, file=StringIO())
    console.print(table(runs))
    text = console.export_text()
    assert all(mode.name in text for mode in MODES)
    assert text.count("0.125  0.250") == 2
    assert [*summary(runs)] == ["slowest flow of all seeds: 100% of its rate on planned paths, 12% on drawn ones"]
    late = replace(RUN, slowest=0.5, machine=BUSY)
    assert [*summary([*runs, late])][1].startswith(f"not shown: {RUN.mode}, seed 1: this machine was busy (its host")


def test_options_of_the_other_demo_are_refused_with_spray(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    app = typer.Typer()
    app.command()(demo)
    found = CliRunner().invoke(app, ["--spray", "--hosts", "8", "--modes", "planned", "--seeds", "1"])
    assert isinstance(found.exception, InputError)
    assert str(found.exception) == ("--spray has a fabric, workload and modes of its own: leave out --hosts, --modes")


@pytest.mark.parametrize("seconds", [0.5, 601.0, float("nan")])
def test_a_duration_out_of_range_is_refused(seconds):
    with pytest.raises(InputError, match=r"^--seconds .*: must be 1 to 600 with --spray$"):
        spray_options((1,), seconds)
