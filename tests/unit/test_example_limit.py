"""An asynchronous property test that hangs ends soon, and names the example."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.example_limit import ExampleHungError, limited


def run(test):
    """Run a property test as pytest-asyncio does, with a limit of 50 ms an example."""
    with limited(SimpleNamespace(obj=test), 0.05):
        each = test.hypothesis.inner_test
        test.hypothesis.inner_test = lambda **named: asyncio.run(each(**named))
        test()


def test_an_example_that_hangs_is_the_last_one_and_is_named():
    tried = []

    @given(st.integers(5, 9), st.data())
    async def hangs(number, data):
        tried.append(data.draw(st.booleans()))
        await asyncio.Event().wait()

    with pytest.raises(ExampleHungError, match=r"no end within 0.05 s: hangs\(number=[5-9], .*\n@reproduce_failure"):
        run(hangs)
    assert len(tried) == 1


def test_examples_that_end_in_time_are_all_tried_and_an_error_stays_one():
    tried = []

    @given(st.integers())
    async def ends(number):
        tried.append(number)
        if len(tried) > 10:
            raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        run(ends)
    assert len(tried) > 10
