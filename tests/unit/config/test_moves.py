import pytest

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
