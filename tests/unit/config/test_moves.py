import pytest
from pydantic import ValidationError

from heddle.controller.config.moves import MovesConfig
from heddle.controller.model.moves import DEFAULT_MOVES, MAX_MOVES, Cause, MoveLimit, Whose


def test_the_defaults_are_those_of_the_policy():
    assert MovesConfig().limits() == dict(DEFAULT_MOVES)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("none", MoveLimit()),
        ("own_job 3", MoveLimit(whose=Whose.OWN_JOB, max_flows=3)),
        ("lower_priority unlimited", MoveLimit(whose=Whose.LOWER_PRIORITY, max_flows=MAX_MOVES)),
    ],
)
def test_a_limit_is_whose_and_how_many(text, limit):
    assert MovesConfig(failure=text).limits()[Cause.FAILURE] == limit


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        ({"arrival": "any 64"}, MoveLimit()),
        ({"arrival": "any 64", "convergence": "any unlimited"}, MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES)),
        ({"convergence": "none"}, MoveLimit()),
    ],
)
def test_a_policy_that_is_written_converges_only_if_it_says_so(written, limit):
    assert MovesConfig(**written).limits()[Cause.CONVERGENCE] == limit


def test_a_convergence_is_on_behalf_of_no_job():
    with pytest.raises(ValidationError, match="is on behalf of no job: must be none, or any and a number or unlimited"):
        MovesConfig(convergence="tenant 5")
