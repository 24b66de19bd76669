"""A fabric file is tried in a process of its own, whose judgement is that of the controller's own functions."""

import asyncio
from functools import partial

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import InputError, UnavailableError
from heddle.controller.runtime.journal.fitting import encoded
from heddle.controller.runtime.journal.foresight import running_of
from heddle.controller.runtime.trial.judge import judged
from heddle.controller.runtime.trial.trial import Trial
from tests.support.fabrics.grown_files import LEAF_MORE, YARD
from tests.unit.journal.test_another_fabric import fabric_of, kept, started

READ = partial(parse_fabric, name="yard.yaml")


async def test_what_a_process_says_is_what_the_controllers_functions_say_and_the_fabric_keeps_the_layout_of_jobs():
    state = started(YARD, kept(YARD))
    async with Trial(LEAF_MORE, READ) as trial:
        assert await trial.name() == "yard"
        process = trial._process
        assert process is not None
        assert await trial.judge(state) == judged(running_of(state), fabric_of(LEAF_MORE))
        small = await trial.check(state, kept=frozenset(("mesh",)))  # the journal's job crosses once
        assert (small.refusal, small.gone) == ("", frozenset())
        assert (await trial.judge(begin(fabric_of(LEAF_MORE)))).is_same
        await trial.judge(state)
        fabric, whole = await trial.hand_over()
    assert (fabric.port_layout, whole) == (state.layout, encoded(fabric_of(LEAF_MORE)))
    while process.alive:
        await asyncio.sleep(0.01)


async def test_a_malformed_file_is_the_error_of_its_reader():
    async with Trial("spinse: 3", READ) as trial:
        with pytest.raises(InputError, match=r"yard\.yaml: spinse: unknown key"):
            await trial.name()


async def test_a_fabric_needs_no_file_and_a_process_that_is_killed_or_late_is_one_line():
    async with Trial(fabric_of(YARD), READ) as trial:
        assert await trial.name() == "yard"
        trial._limit_s = 0.0
        with pytest.raises(UnavailableError, match=r"ended \(TimeoutError\); nothing was changed: try again"):
            await trial.judge(begin(fabric_of(YARD)))
        assert trial._process is not None
        trial._process.kill()
        with pytest.raises(UnavailableError, match="nothing was changed: try again"):
            await trial.judge(begin(fabric_of(YARD)))
