"""A controller that starts beside switches with the pins of an earlier one: they stay for a while, then they go."""

from heddle.controller.brain.begin import begin
from heddle.controller.brain.state import wanted
from heddle.controller.model.event import Release, Submit, SwitchUp, Tick
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair, Steering
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.rule import Cookie, CookieKind
from tests.unit.brain.driver import Driver, small_fabric


def pinned_pair(number: int) -> JobRequest:
    """Return a job of one pinned flow between leaves; each number below 24 has a pair of NICs of its own."""
    source, step = number % 8, 2 + 2 * (number // 8)
    ranks = (f"h{source + 1}-n0", f"h{(source + step) % 8 + 1}-n0")
    flow = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=(RankPair(0, 1),))
    return JobRequest(job_id=f"job{number}", ranks=ranks, collectives=(flow,), steering=Steering.PIN)


def pins(driver: Driver) -> set[tuple[str, object]]:
    return {
        (switch, rule.key)
        for switch, rules in driver.held.items()
        for rule in rules.rules
        if (cookie := Cookie.unpack(rule.cookie)) is not None and cookie.kind is CookieKind.PIN
    }


def started(now: int, before: Driver | None = None) -> Driver:
    driver = Driver(small_fabric(), now=now)
    driver.state = begin(driver.fabric, driver.settings, now)
    if before is not None:
        driver.held = dict(before.held)
    return driver


def submitted(driver: Driver, number: int) -> JobPlan:
    driver.feed(Submit(reply=number, request=pinned_pair(number)))
    plan = driver.reply_to(number)
    assert isinstance(plan, JobPlan), plan
    return plan


def a_controller_with_pins(jobs: int) -> Driver:
    driver = started(now=1_000_000)
    driver.connect_all()
    for number in range(jobs):
        submitted(driver, number)
    return driver


def test_pins_of_an_earlier_controller_stay_for_the_grace_time_even_if_it_admitted_more_jobs_than_tenths_of_seconds():
    before = a_controller_with_pins(jobs=16)
    older = pins(before)
    driver = started(before.now + 100, before)
    driver.connect_all()
    for number in range(16, 24):
        submitted(driver, number)
    assert older <= pins(driver)
    driver.now += driver.settings.pin_grace_ms
    driver.feed(Tick())
    assert driver.differing() == []
    assert len(pins(driver)) < len(older)


def test_a_switch_that_connects_after_the_first_jobs_keeps_its_older_pins_too():
    before = a_controller_with_pins(jobs=16)
    older = {pin for pin in pins(before) if pin[0] == "leaf1"}
    assert older
    driver = started(before.now, before)
    for switch in sorted(driver.held.keys() - {"leaf1"}):
        driver.feed(SwitchUp(switch=switch, ports={}, installed=driver.held[switch]))
    submitted(driver, 10)
    driver.feed(SwitchUp(switch="leaf1", ports={}, installed=driver.held["leaf1"]))
    submitted(driver, 16)
    assert older <= pins(driver)


def test_own_pins_leave_with_their_job_during_the_grace_time():
    before = a_controller_with_pins(jobs=16)
    driver = started(before.now + 100, before)
    driver.connect_all()
    submitted(driver, 3)
    of_job = {(switch, rule.key) for switch, rules in driver.state.jobs["job3"].pin_rules.items() for rule in rules}
    assert of_job <= pins(driver)
    driver.feed(Release(reply=90, job_id="job3"))
    assert not of_job & pins(driver)
    assert pins(before) - of_job <= pins(driver)


def test_the_same_jobs_again_leave_exactly_what_is_wanted_after_the_grace_time():
    before = a_controller_with_pins(jobs=8)
    driver = started(before.now + 100, before)
    driver.connect_all()
    for number in range(8):
        submitted(driver, number)
    driver.now += driver.settings.pin_grace_ms
    driver.feed(Tick())
    assert {switch: set(rules.rules) for switch, rules in driver.held.items()} == {
        switch: set(wanted(driver.state, switch).rules) for switch in driver.held
    }
