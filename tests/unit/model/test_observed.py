"""Queue pairs that hosts report: which are joined, and which are large."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.admission import problems
from heddle.controller.model.observed import MAX_QUEUE_PAIRS, QueuePair, Reports, Stream, job_for
from heddle.foundation.kernel_port import kernel_source_port
from tests.unit.brain.driver import small_fabric

FABRIC = small_fabric()  # NICs of 1 Gbit/s
IP = {nic.id: nic.ip for nic in FABRIC.nics}
SECOND_NS = 10**9
LARGE = 50_000_000  # bytes per second: 0.4 of a NIC
NONE = Reports(by_host={})


def pair(src, src_qpn, dst_qpn, *, dst=None, port=0, sent=0, at=SECOND_NS):
    return QueuePair(IP[src], IP[dst] if dst else None, port, src_qpn, dst_qpn, sent, at)


def reported(*seconds):
    """Give each host's report of each second; what a host sends grows by LARGE a second unless it says otherwise."""
    reports = NONE
    for number, second in enumerate(seconds, 1):
        for host, pairs in second.items():
            grown = (each._replace(sent_bytes=each.sent_bytes * number, unix_ns=number * SECOND_NS) for each in pairs)
            reports = reports.with_report(FABRIC, host, grown)
    return reports


def test_reports_of_both_hosts_are_joined_on_both_numbers():
    both = {"h1": [pair("h1-n0", 7, 9, sent=LARGE)], "h3": [pair("h3-n0", 9, 7)]}
    stream = Stream("h1-n0", "h3-n0", kernel_source_port(7, 9))
    assert reported(both, both).large(FABRIC) == {stream}
    assert reported(both).large(FABRIC) == frozenset()  # one report has no rate
    assert reported({"h1": both["h1"]}, {"h1": both["h1"]}).large(FABRIC) == frozenset()


def test_an_ambiguous_peer_or_sender_is_never_chosen():
    sender, peer = [pair("h1-n0", 7, 9, sent=LARGE)], [pair("h3-n0", 9, 7)]
    two_peers = {"h1": sender, "h3": peer, "h5": [pair("h5-n0", 9, 7)]}
    two_senders = {"h1": sender, "h2": [pair("h2-n0", 7, 9)], "h3": peer}
    three_alike = {name: [pair(f"{name}-n0", 7, 7, sent=LARGE)] for name in ("h1", "h3", "h5")}
    for second in (two_peers, two_senders, three_alike):
        assert reported(second, second).large(FABRIC) == frozenset()


def test_queue_pairs_with_one_number_at_both_ends_are_joined():
    both = {"h1": [pair("h1-n0", 7, 7, sent=LARGE)], "h3": [pair("h3-n0", 7, 7)]}
    assert reported(both, both).large(FABRIC) == {Stream("h1-n0", "h3-n0", kernel_source_port(7, 7))}
    alone = {"h1": both["h1"]}
    assert reported(alone, alone).large(FABRIC) == frozenset()


def test_a_report_with_address_and_port_needs_no_peer():
    alone = {"h1": [pair("h1-n0", 7, 9, dst="h3-n0", port=50_000, sent=LARGE)]}
    assert reported(alone, alone).large(FABRIC) == {Stream("h1-n0", "h3-n0", 50_000)}


def test_a_report_counts_for_the_reporters_own_nics_only():
    forged = {"h2": [pair("h1-n0", 7, 9, dst="h3-n0", port=50_000, sent=LARGE)]}
    reports = reported(forged, forged)
    assert reports.large(FABRIC) == frozenset()
    assert reports.foreign == 2


def test_queue_pairs_with_one_port_are_one_stream():
    half = [pair("h1-n0", n, n + 1, dst="h3-n0", port=50_000, sent=LARGE // 6) for n in (3, 5)]
    assert reported({"h1": half[:1]}, {"h1": half[:1]}).large(FABRIC) == frozenset()
    assert reported({"h1": half}, {"h1": half}).large(FABRIC) == {Stream("h1-n0", "h3-n0", 50_000)}


def test_a_large_stream_stays_down_to_half_of_the_share():
    slow = {"h1": [pair("h1-n0", 7, 9, dst="h3-n0", port=50_000, sent=LARGE // 6)]}
    stream = Stream("h1-n0", "h3-n0", 50_000)
    reports = reported(slow, slow)
    assert reports.large(FABRIC) == frozenset()
    assert reports.large(FABRIC, frozenset((stream,))) == {stream}
    assert reports.with_report(FABRIC, "h1", ()).large(FABRIC, frozenset((stream,))) == frozenset()
    assert reports.without("h1").large(FABRIC, frozenset((stream,))) == frozenset()


def test_a_counter_that_falls_or_has_no_time_is_not_measured():
    first = pair("h1-n0", 7, 9, dst="h3-n0", port=50_000, sent=LARGE, at=SECOND_NS)
    for sent, at in ((0, 2 * SECOND_NS), (2 * LARGE, 0), (2 * LARGE, SECOND_NS // 2)):
        later = first._replace(sent_bytes=sent, unix_ns=at)
        reports = NONE.with_report(FABRIC, "h1", [first]).with_report(FABRIC, "h1", [later])
        assert reports.large(FABRIC) == frozenset()


def test_queue_pairs_past_the_limit_are_counted():
    many = (pair("h1-n0", n + 1, n + 2) for n in range(MAX_QUEUE_PAIRS + 5))
    reports = NONE.with_report(FABRIC, "h1", many)
    assert (reports.surplus, reports.foreign, len(reports.by_host["h1"])) == (5, 0, MAX_QUEUE_PAIRS)


def test_the_job_of_a_stream_is_valid():
    assert list(problems(job_for(Stream("h1-n0", "h3-n0", 50_000)), FABRIC)) == []


qpns = st.integers(1, 3)
any_pair = st.builds(
    pair, st.sampled_from(["h1-n0", "h2-n0", "h3-n0"]), qpns, qpns, sent=st.just(LARGE)
)  # fmt: skip


@given(st.lists(any_pair, max_size=8))
def test_of_any_reports_only_unique_matches_are_chosen(pairs):
    hosts = {nic.ip: nic.host for nic in FABRIC.nics}
    pairs = list({(each.src_ip, each.src_qpn, each.dst_qpn): each for each in pairs}.values())
    second = {name: [each for each in pairs if hosts[each.src_ip] == name] for name in ("h1", "h2", "h3")}
    for stream in reported(second, second).large(FABRIC):
        matches = [
            (a, b)
            for a in pairs
            for b in pairs
            if (a.src_qpn, a.dst_qpn) == (b.dst_qpn, b.src_qpn)
            and kernel_source_port(a.src_qpn, a.dst_qpn) == stream.udp_source_port
            and a.src_ip == IP[stream.src_nic]
            and b.src_ip != a.src_ip
        ]
        assert IP[stream.dst_nic] in [b.src_ip for _, b in matches]
        assert len(matches) == 1
