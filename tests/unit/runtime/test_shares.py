import pytest

from heddle.controller.model.error import BudgetExceededError
from heddle.controller.runtime.limits.shares import Shares


def test_a_caller_past_its_limit_is_refused_and_counted_and_others_are_not():
    shares = Shares("previews", 2)
    with shares.taken("ipv4:10.0.0.1"), shares.taken("ipv4:10.0.0.1"):
        with pytest.raises(BudgetExceededError, match=r"2 previews of ipv4:10\.0\.0\.1"), shares.taken("ipv4:10.0.0.1"):
            pass
        with shares.taken("ipv4:10.0.0.2"):
            pass
    assert shares.refused == 1


def test_a_share_is_free_again_however_its_call_ended():
    shares = Shares("previews", 1)
    with pytest.raises(ValueError, match="failed"), shares.taken("a"):
        raise ValueError("failed")
    with shares.taken("a"):
        pass
    assert shares.refused == 0
