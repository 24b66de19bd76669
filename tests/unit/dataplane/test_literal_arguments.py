"""Functions that kernels call with literals are compiled once, for these as for variables."""

import numba
import pytest

from heddle.dataplane.jit import element, inline, kernel


@pytest.mark.parametrize("compiled", [kernel, element, inline])
def test_a_function_that_kernels_call_has_one_compiled_form_for_literals_and_variables(compiled):
    def weighed(value, factor, twice=False):
        return (2 if twice else 1) * factor * value

    called = compiled(weighed)

    @numba.njit
    def total(value):
        return called(value, value, False) + called(3, 5, True) + called(value, factor=7, twice=value > 3)

    assert total(4) == 16 + 30 + 56
    assert len(called.signatures) == 1
