"""A time limit of each example of an asynchronous property test, which ends the test with the example that hung.

pytest's own limit would end one example, after minutes, and hypothesis would then look for smaller ones that hang too.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest
from hypothesis.control import current_build_context
from hypothesis.core import encode_failure

LIMIT_S = 10.0
Test = Callable[..., Coroutine[Any, Any, None]]


class ExampleHungError(BaseException):
    """An example did not end in time. hypothesis passes it on: it would catch an Exception, and try other examples."""


@contextmanager
def limited(item: object, limit_s: float = LIMIT_S) -> Iterator[None]:
    """Limit each example while an item runs, if it is an asynchronous property test; leave others alone."""
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    test = getattr(handle, "inner_test", None)
    if not inspect.iscoroutinefunction(test):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handle, "inner_test", _limited(test, limit_s))
        yield


def _limited(test: Test, limit_s: float) -> Test:
    @functools.wraps(test)
    async def run(*arguments: Any, **named: Any) -> None:
        try:
            async with asyncio.timeout(limit_s) as limit:
                await test(*arguments, **named)
        except TimeoutError:
            if not limit.expired():
                raise
            drawn = ", ".join([*map(repr, arguments), *(f"{name}={value!r}" for name, value in named.items())])
            blob = encode_failure(current_build_context().data.choices)
            again = f"@reproduce_failure({hypothesis.__version__!r}, {blob!r})"
            raise ExampleHungError(f"no end within {limit_s:g} s: {test.__name__}({drawn})\n{again}") from None

    return run
