"""The verdict on a scene: monotone, and it excuses the machine and nothing else."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.demo.results.judgement import Attempt, Check, Verdict, verdict_of, why_busy
from heddle.mininet_topos.demo.results.scenes import recovered_ns
from heddle.mininet_topos.host.machine import MachineUse

ORDER = list(Verdict)
QUIET = MachineUse(seconds=4.5, processors=2)
LIMITS = {"stolen_share": 0.3, "others_processors": 2.0, "waited_share": 0.9, "max_late_ns": 400_000_000}

CHECKS = st.lists(
    st.builds(Check, text=st.just("x"), holds=st.booleans(), decision=st.booleans()), min_size=1, max_size=5
)
USES = st.builds(
    MachineUse,
    seconds=st.just(4.5),
    processors=st.just(2),
    **{name: st.one_of(st.just(0), st.floats(0, most)) for name, most in LIMITS.items()},
)
ATTEMPTS = st.builds(
    Attempt,
    checks=CHECKS.map(tuple),
    problems=st.sampled_from([(), ("7 packets are missing",)]),
    faults=st.sampled_from([(), (), (), ("3 packets arrived damaged",)]),
    caused=st.booleans(),
    machine=st.one_of(st.none(), USES),
)
SEVERAL = st.lists(ATTEMPTS, min_size=1, max_size=3)


@given(SEVERAL, st.data())
def test_a_better_measurement_never_worsens_the_verdict(attempts, data):
    place = data.draw(st.integers(0, len(attempts) - 1))
    one = attempts[place]
    check = data.draw(st.integers(0, len(one.checks) - 1))
    better_checks = tuple(replace(each, holds=each.holds or at == check) for at, each in enumerate(one.checks))
    better = data.draw(
        st.sampled_from([replace(one, checks=better_checks), replace(one, problems=()), replace(one, faults=())])
    )
    after = [better if at == place else each for at, each in enumerate(attempts)]
    assert ORDER.index(verdict_of(after)) <= ORDER.index(verdict_of(attempts))


@given(SEVERAL, USES)
def test_a_missing_decision_fails_however_busy_the_machine_and_whatever_else_was_shown(attempts, use):
    undecided = Attempt(checks=(Check(text="left", holds=False, decision=True),), caused=True, machine=use)
    for place in range(len(attempts) + 1):
        assert verdict_of([*attempts[:place], undecided, *attempts[place:]]) is Verdict.FAILED


@given(st.lists(ATTEMPTS.map(lambda one: replace(one, faults=())), min_size=1, max_size=3), USES)
def test_right_decisions_on_a_busy_machine_never_fail(attempts, use):
    busy = replace(use, others_processors=1.0)
    right = [
        replace(
            one, machine=busy, checks=tuple(replace(each, holds=each.holds or each.decision) for each in one.checks)
        )
        for one in attempts
    ]
    assert verdict_of(right) is not Verdict.FAILED


@given(SEVERAL)
def test_on_a_quiet_machine_everything_is_shown_or_fails(attempts):
    quiet = [replace(one, machine=QUIET) for one in attempts]
    assert verdict_of(quiet) is not Verdict.NOT_SHOWN


@given(SEVERAL)
def test_shown_means_that_one_attempt_shows_all_and_none_has_a_fault(attempts):
    if verdict_of(attempts) is Verdict.SHOWN:
        assert any(all(check.holds for check in one.checks) and not one.problems for one in attempts)
        assert not any(one.faults for one in attempts)


@given(USES, st.sampled_from(sorted(LIMITS)), st.floats(1.0, 3.0))
def test_a_machine_that_gives_less_never_counts_as_quieter(use, name, factor):
    if why_busy(use):
        assert why_busy(replace(use, **{name: getattr(use, name) * factor}))


@given(st.lists(st.integers(0, 100), min_size=60, max_size=90), st.lists(st.integers(0, 60), min_size=90, max_size=90))
def test_more_goodput_after_the_act_never_recovers_later(goodput, more):
    since = 24 * 50_000_000
    better = [value + (more[at] if at >= 24 else 0) for at, value in enumerate(goodput)]
    first, second = recovered_ns(goodput, since, 60.0), recovered_ns(better, since, 60.0)
    assert first is None or (second is not None and second <= first)
