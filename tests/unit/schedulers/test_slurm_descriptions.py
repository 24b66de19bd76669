"""What a job says of itself is read, whatever it says."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.model.error import InputError
from heddle.controller.model.job import Algorithm, Collective, CollectiveKind
from heddle.controller.schedulers.slurm_descriptions import Description, described_collective, description_of
from tests.support.examples import examples


def test_account_and_comment_are_read_as_squeue_prints_them():
    assert description_of("(null)|main|(null)\n") == Description("", "main", "(null)\n")
    assert description_of("ml|p|a|b\nheddle: qps=2\n") == Description("ml", "p", "a|b\nheddle: qps=2\n")
    assert description_of("a\nb|x\n").account == ""
    assert description_of("") == Description("", "", "")


@pytest.mark.parametrize(
    ("comment", "wanted"),
    [
        ("(null)\n", None),
        ("run 7 of my heddle: no, of myheddle:", (CollectiveKind.RING_ALL_REDUCE, 10**9, 1)),
        ("heddle:", (CollectiveKind.RING_ALL_REDUCE, 10**9, 1)),
        ("x heddle: collective=ALL_TO_ALL bytes=4000000000 qps=4\nmore", (CollectiveKind.ALL_TO_ALL, 4 * 10**9, 4)),
        ("heddle: qps=16\nheddle: qps=2", (CollectiveKind.RING_ALL_REDUCE, 10**9, 16)),
        ("myheddle: qps=3", None),
    ],
)
def test_a_comment_describes_a_collective_over_all_ranks(comment, wanted):
    if wanted and "no," in comment:
        with pytest.raises(InputError, match="'no,' is none of collective=, bytes=, qps="):
            described_collective(comment)
        return
    found = described_collective(comment)
    assert found == (wanted and Collective(kind=wanted[0], size_bytes=wanted[1], qps_per_flow=wanted[2]))


def test_a_comment_may_name_an_algorithm():
    found = described_collective("heddle: collective=ALL_TO_ALL algorithm=NCCL_NO_PXN")
    assert found == Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=10**9, algorithm=Algorithm.NCCL_NO_PXN)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("collective=ALL_TO_AL", "collective='ALL_TO_AL' is no collective over all ranks, did you mean ALL_TO_ALL?"),
        ("collective=all_to_all", "collective='all_to_all' is no collective over all ranks, did you mean ALL_TO_ALL?"),
        ("qps=2 bytes=4 qps=4", "qps= stands there twice"),
        ("collective=SEND_RECV", "is no collective over all ranks"),
        ("bytes=0", "bytes='0' is no number of bytes"),
        ("bytes=" + "9" * 19, "is no number of bytes"),
        ("qps=17", "qps='17' is no number from 1 to 16"),
        ("qps=", "qps='' is no number"),
        ("algorithm=NCLL", "algorithm='NCLL' is none of CONTRACT, NCCL, NCCL_NO_PXN"),
        ("ranks=3", "'ranks=3' is none of"),
    ],
)
def test_what_a_comment_says_wrongly_is_one_line(words, line):
    with pytest.raises(InputError) as caught:
        described_collective(f"heddle: {words}")
    assert line in str(caught.value)


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=40))
def test_any_comment_is_a_collective_nothing_or_one_line(text):
    try:
        described_collective(f"heddle: {text}")
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - a collective is as well
