"""What a start reads from the journal, and which journals it refuses, with the place, the name and the remedy."""

from dataclasses import replace

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.model.error import InputError
from heddle.controller.model.event import Submit
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.runtime.journal import jobs, values
from heddle.controller.runtime.journal.fitting import CABLES, STEERING
from heddle.controller.runtime.journal.restart import continued, numbered, remember_fabric
from heddle.controller.runtime.ports import EPOCH_SHIFT, StateStore
from tests.unit.brain.driver import Driver, shift_job, small_fabric

NOW = 5_000_000


class Store(StateStore):
    """Holds what is written, and is asked for nothing else."""

    place = "the store"

    def __init__(self, **drained):
        self.held = {("drain", name): values.encode(target) for name, target in drained.items()}

    def read(self):
        return dict(self.held)

    def write(self, values):
        self.held |= values
        self.held = {key: value for key, value in self.held.items() if value is not None}

    check = close = next_generation = None  # type: ignore[assignment]


def started(store, fabric=None, generation=0):
    return numbered(continued(begin(fabric or small_fabric()), store, NOW), generation)


@pytest.fixture
def kept():
    """A store that knows the fabric and a running job."""
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("train")))
    store = Store()
    remember_fabric(driver.state, store)
    store.write({("job", "train"): jobs.encode(topology_of(driver.fabric), driver.state.jobs["train"])})
    return store


def test_an_empty_journal_is_a_first_start_whose_pins_are_of_an_earlier_controller():
    state = begin(small_fabric(), started_unix_ms=NOW)
    found = numbered(continued(state, Store(), NOW), 3 << EPOCH_SHIFT)
    assert found.started_unix_ms == NOW
    assert found.settings.is_journaled is True
    assert found.settings.generation_floor == 3 << EPOCH_SHIFT


def test_jobs_and_drains_are_as_they_were(kept):
    kept.write({("drain", "spine1"): values.encode("spine1")})
    found = started(kept)
    assert (set(found.jobs), found.drained, found.started_unix_ms) == ({"train"}, {"spine1"}, None)


def test_generations_go_on_above_what_may_have_been_published_and_not_written(kept):
    kept.write({("network_generation", ""): values.encode(9 << EPOCH_SHIFT)})
    floor = started(kept, generation=(2 << EPOCH_SHIFT) + 5).settings.generation_floor
    assert floor > 9 << EPOCH_SHIFT
    assert started(kept, generation=(10 << EPOCH_SHIFT) + 5).settings.generation_floor == 10 << EPOCH_SHIFT


def refusal(store, fabric=None):
    with pytest.raises(InputError) as found:
        started(store, fabric)
    return str(found.value)


def test_a_drained_switch_that_the_fabric_lacks_is_refused_by_its_name():
    assert refusal(Store(spine9="spine9")) == (
        "the store: spine9 is drained, which fabric small does not have: keep it in the fabric file until no job "
        "needs it, or name another directory by --state"
    )
    link = next(iter(small_fabric().cable_by_link))
    started(Store(**{link: link}))


def test_a_damaged_value_and_an_unknown_kind_are_refused():
    store = Store()
    store.write({("drain", "spine1"): b"{"})
    assert refusal(store).startswith("the store is damaged or of a newer version: ")
    store.write({("drain", "spine1"): None, ("weather", "x"): b"1"})
    assert refusal(store) == (
        "the store is damaged or of a newer version: an unknown kind of value, weather; `heddle state restore`"
    )


def test_jobs_of_another_steering_are_refused_and_no_jobs_are_not(kept):
    hashing = replace(small_fabric(), steered_by=SteeredBy.HASH)
    assert refusal(kept, hashing) == (
        "the store: job train was planned with `steering: openflow`, and the fabric file has `hash`: release its jobs "
        "with the former, or name another directory by --state"
    )
    kept.write({("job", "train"): None})
    assert started(kept, hashing).jobs == {}


def test_the_fabric_and_its_steering_are_written_where_they_have_changed_and_jobs_with_them(kept):
    before = kept.read()
    state = started(kept)
    remember_fabric(state, kept)
    assert kept.read() == before
    kept.write({CABLES: values.encode(("another",)), ("job", "train"): b""})
    remember_fabric(state, kept)
    assert kept.read() == before
    assert STEERING not in before
    hashing = replace(small_fabric(), steered_by=SteeredBy.HASH)
    remember_fabric(begin(hashing), kept)
    assert kept.read()[STEERING] == b"hash"
