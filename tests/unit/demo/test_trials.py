"""What a run of `make trials` must come to."""

import pytest

from tests.support.demo_trials import SERIES, Trial, passes


def trial(status: int, verdicts: str, *why: str) -> Trial:
    kinds = dict(zip(("cut", "hog", "arrival", "storm"), verdicts.split(","), strict=False)) if verdicts else {}
    return Trial(
        status=status, seconds=99.0, rate_mbps=20.0, given_up=0, attempts=4, load="", verdicts=kinds, unshown_runs=[],
        why=list(why),
    )  # fmt: skip


ALL, THREE = "shown,shown,shown,shown", "shown,shown,not shown,shown"
NAMED, FAILED = "not shown: scene arrival: this machine was busy (…)", "failed,shown,shown,shown"


@pytest.mark.parametrize(
    ("series", "run", "right"),
    [
        ("idle", trial(0, ALL), True),
        ("idle", trial(0, THREE, NAMED), False),
        ("one-loop", trial(0, THREE, NAMED), True),
        ("one-loop", trial(0, THREE), False),
        ("one-loop", trial(0, "shown,not shown,not shown,shown", NAMED), False),
        ("one-loop", trial(1, ALL), False),
        ("two-loops", trial(0, "not shown,not shown,not shown,not shown", NAMED), True),
        ("two-loops", trial(1, FAILED), False),
        ("planted", trial(1, FAILED), True),
        ("planted", trial(0, ALL), False),
        ("planted-one-loop", trial(1, "", "heddle: the controller refused: Deadline Exceeded"), False),
    ],
)
def test_a_run_passes_by_its_status_its_scenes_and_what_it_says(series, run, right):
    assert passes(SERIES[series], run, 4) is right
