"""The compiler's process: its rules are those of a compilation in this process, and only what differs is new."""

import asyncio
import os
import random
import signal
from itertools import pairwise

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.model.effect import Compile
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.pipeline import Table
from heddle.controller.runtime.compiling import wire
from heddle.controller.runtime.compiling.compiler import ProcessCompiler
from tests.support.fabrics.other_ports import with_other_ports
from tests.support.fabrics.small_fabrics import clos3, rails
from tests.unit.brain.driver import small_fabric

FABRIC = clos3(2, 3, 2, 2)


@pytest.fixture
async def compiler():
    found = ProcessCompiler(FABRIC)
    yield found
    found.close()
    await asyncio.sleep(0)  # the connection closes in the next turn


def drawn_healths(fabric: Fabric, count: int) -> list[Health]:
    drawn = random.Random(7)
    return [
        Health(
            down_cables=frozenset(cable.id for cable in drawn.sample(fabric.cables, drawn.randint(0, 3))),
            down_switches=frozenset(drawn.sample([switch.id for switch in fabric.switches], drawn.randint(0, 1))),
            quarantined_nics=frozenset(drawn.sample([nic.id for nic in fabric.nics], drawn.randint(0, 1))),
        )
        for _ in range(count)
    ]


async def compiled_in_turn(compiler, fabric, healths):
    """Compile for one state of the fabric after the other, each based on the one before."""
    before, found = begin(fabric).underlay, []
    for number, (base, health) in enumerate(pairwise([fabric.failed, *healths])):
        work = Compile(token=number, base=base, health=health, before=before, pinned=())
        result = await compiler.compile(work)
        found.append((work, result))
        before = result.underlay
    return found


async def test_rules_of_the_process_equal_those_compiled_from_nothing(compiler):
    for work, result in await compiled_in_turn(compiler, FABRIC, drawn_healths(FABRIC, 12)):
        expected = compile_fabric(FABRIC, layout_of(FABRIC), work.health)
        assert result.underlay == expected
        assert result.differing == {switch for switch in expected if expected[switch] != work.before[switch]}


async def test_switches_and_exceptions_that_do_not_differ_keep_their_objects(compiler):
    for work, result in await compiled_in_turn(compiler, FABRIC, drawn_healths(FABRIC, 6)):
        for switch, rules in result.underlay.items():
            if switch not in result.differing:
                assert rules is work.before[switch]
            known = {rule: rule for rule in work.before[switch].rules if rule.table == Table.OVERRIDES}
            assert all(known.get(rule, rule) is rule for rule in rules.rules)


async def test_a_process_that_is_killed_is_replaced(compiler):
    healths = drawn_healths(FABRIC, 4)
    (*_, (_, last)) = await compiled_in_turn(compiler, FABRIC, healths[:2])
    os.kill(compiler.pid, signal.SIGKILL)
    work = Compile(token=1, base=healths[1], health=healths[2], before=last.underlay, pinned=())
    assert (await compiler.compile(work)).underlay == compile_fabric(FABRIC, layout_of(FABRIC), healths[2])


async def test_a_process_that_hangs_is_replaced(compiler, monkeypatch):
    healths = drawn_healths(FABRIC, 2)
    ((_, last),) = await compiled_in_turn(compiler, FABRIC, healths[:1])
    os.kill(stopped := compiler.pid, signal.SIGSTOP)
    monkeypatch.setattr("heddle.controller.runtime.compiling.compiler.LIMIT_S", 2.0)
    work = Compile(token=1, base=healths[0], health=healths[1], before=last.underlay, pinned=())
    assert (await compiler.compile(work)).underlay == compile_fabric(FABRIC, layout_of(FABRIC), healths[1])
    assert compiler.pid != stopped


async def test_a_process_that_always_dies_is_not_waited_for(compiler, monkeypatch):
    monkeypatch.setattr(
        "heddle.controller.runtime.compiling.compiler.MODULE", "heddle.controller.runtime.compiling.no_such"
    )
    health = drawn_healths(FABRIC, 1)[0]
    work = Compile(token=1, base=FABRIC.failed, health=health, before=begin(FABRIC).underlay, pinned=())
    assert (await compiler.compile(work)).underlay == compile_fabric(FABRIC, layout_of(FABRIC), health)


async def test_it_compiles_for_the_fabric_that_a_journal_leads_to(compiler):
    other = with_other_ports(FABRIC)
    compiler.start()
    compiler.use(other)
    for work, result in await compiled_in_turn(compiler, other, drawn_healths(FABRIC, 2)):
        assert result.underlay == compile_fabric(FABRIC, layout_of(other), work.health)
        assert result.underlay != compile_fabric(FABRIC, layout_of(FABRIC), work.health)


@pytest.mark.parametrize("fabric", [small_fabric(spines=9, leaves=12), rails()], ids=["small", "rails"])
def test_messages_are_bounded_and_bring_every_rule(fabric, monkeypatch):
    monkeypatch.setattr(wire, "MAX_ROWS", 7)
    layout = layout_of(fabric)
    base = compile_fabric(fabric, layout)
    for health in drawn_healths(fabric, 5):
        compiled = compile_fabric(fabric, layout, health)
        reader = wire.PartReader(base)
        for part in wire.PartWriter().parts(base, compiled):
            assert len(part.rows) <= 7
            reader.add(part)
        assert {**base, **reader.found} == compiled
