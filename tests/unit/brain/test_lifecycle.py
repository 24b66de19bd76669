"""The table of job states, and its page of documentation."""

from pathlib import Path

import pytest

from heddle.controller.brain.decide import WORK_HANDLERS
from heddle.controller.brain.lifecycle import TRANSITIONS, JobEvent, WorkKind, after, allows
from heddle.controller.brain.lifecycle_page import markdown
from heddle.controller.model.job_state import JobState

ROOT = Path(__file__).parents[3]


def test_the_page_of_documentation_is_current():
    page = (ROOT / "docs" / "jobs-states.md").read_text()
    assert page == markdown(), "run: python -m heddle.controller.brain.lifecycle_page > docs/jobs-states.md"


def test_states_have_the_names_of_the_contract():
    assert [str(state) for state in JobState] == ["planned", "running", "degraded", "released"]


def test_every_event_and_every_state_occurs_in_the_table():
    assert {event for _, event in TRANSITIONS} == set(JobEvent)
    assert set(TRANSITIONS.values()) == set(JobState)


def test_a_released_job_changes_no_more():
    assert not any(allows(JobState.RELEASED, event) for event in JobEvent)


def test_only_a_job_that_carries_traffic_loses_its_lease_or_changes_rates():
    for event in (JobEvent.LEASE_ENDED, JobEvent.REPLANNED, JobEvent.RELEASED):
        assert [state for state in JobState if allows(state, event)] == [JobState.RUNNING, JobState.DEGRADED]


def test_a_link_that_fails_and_is_repaired_restores_the_state():
    degraded = after(JobState.RUNNING, JobEvent.HARMED)
    assert degraded is JobState.DEGRADED
    assert after(degraded, JobEvent.RECOVERED) is JobState.RUNNING


def test_an_event_that_cannot_occur_in_a_state_is_a_programming_error():
    with pytest.raises(KeyError):
        after(JobState.RUNNING, JobEvent.INSTALLED)


def test_every_kind_of_work_has_handlers():
    assert set(WORK_HANDLERS) == set(WorkKind)
