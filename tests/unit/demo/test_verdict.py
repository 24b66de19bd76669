from types import SimpleNamespace

from heddle.mininet_topos.demo.results.verdict import Leg, check_legs, legs_of, shortened

PATH = ("h1>leaf1:3", "leaf1:1>spine1:1", "spine1:2>leaf2:1", "leaf2:3>h2")


def check_links(links, packets_on, tx_packets, rx_packets):
    return check_legs([Leg(links, packets_on)], tx_packets, rx_packets)


def counts(*packets):
    return dict(zip(PATH, packets, strict=True))


def test_the_same_count_on_every_link_of_the_path_and_on_no_other_is_exact():
    assert check_links(PATH, counts(10, 10, 10, 10), 10, 10) == ()


def test_a_packet_on_a_link_off_the_path_is_reported():
    (fault,) = check_links(PATH, {**counts(10, 10, 10, 10), "leaf1:2>spine2:1": 1}, 10, 10)
    assert "1 packets on leaf1:2>spine2:1, off its path" in fault


def test_a_flow_on_another_path_has_a_fault_for_each_link():
    other = {PATH[0]: 10, "leaf1:2>spine2:1": 10, "spine2:2>leaf2:2": 10, PATH[3]: 10}
    assert len(check_links(PATH, other, 10, 10)) >= 3


def test_a_packet_missing_on_the_first_link_is_reported():
    assert any("10 packets sent, 9 on h1>leaf1:3" in fault for fault in check_links(PATH, counts(9, 9, 9, 9), 10, 9))


def test_packets_dropped_along_the_path_leave_it_exact():
    assert check_links(PATH, counts(10, 10, 7, 7), 10, 7) == ()


def test_a_link_with_more_packets_than_the_one_before_is_reported():
    assert check_links(PATH, counts(10, 9, 10, 10), 10, 10) != ()


def test_fewer_packets_received_than_on_the_last_link_is_reported():
    assert check_links(PATH, counts(10, 10, 10, 10), 10, 9) != ()


def test_a_missed_count_in_the_middle_of_a_lossless_run_is_reported():
    assert check_links(PATH, counts(10, 10, 0, 10), 10, 10) != ()


OTHER = (PATH[0], "leaf1:2>spine2:1", "spine2:2>leaf2:2", PATH[3])


def on(path, *packets):
    return dict(zip(path, packets, strict=True))


def test_a_flow_that_moved_is_exact_if_each_port_was_counted_on_its_own_path():
    legs = [Leg(PATH, counts(6, 6, 6, 6)), Leg(OTHER, on(OTHER, 4, 4, 4, 4))]
    assert check_legs(legs, 10, 10) == ()


def test_packets_of_the_last_port_off_its_path_are_reported():
    legs = [Leg(PATH, counts(6, 6, 6, 6)), Leg(OTHER, counts(4, 4, 4, 4))]
    assert "4 packets on leaf1:1>spine1:1, off its path" in check_legs(legs, 10, 10)


def test_a_port_without_a_planned_path_is_reported():
    assert check_legs([Leg(PATH, counts(6, 6, 6, 6)), Leg((), counts(4, 4, 4, 4))], 10, 10) != ()


def test_of_a_path_left_after_a_failure_only_the_ends_count():
    broken = {PATH[0]: 6, PATH[1]: 2, "leaf1:2>spine2:1": 3, PATH[3]: 5}
    legs = [Leg(PATH, broken, broken=True), Leg(OTHER, on(OTHER, 4, 4, 4, 4))]
    assert check_legs(legs, 10, 9) == ()
    assert check_legs(legs, 11, 9) != ()


def test_a_flow_has_a_leg_for_every_port_and_those_left_after_a_failure_are_broken():
    moves = [
        SimpleNamespace(kind="planned", old_udp_source_port=1, new_udp_source_port=2),
        SimpleNamespace(kind="failure", old_udp_source_port=2, new_udp_source_port=3),
    ]
    flow = SimpleNamespace(request=SimpleNamespace(udp_source_port=1), moves=moves)
    legs = legs_of(flow, {1: PATH, 2: OTHER}, lambda port: {"x": port})  # type: ignore[arg-type]
    assert legs == [Leg(PATH, {"x": 1}), Leg(OTHER, {"x": 2}, broken=True), Leg((), {"x": 3})]


def test_many_problems_are_shortened_to_a_few_and_the_number_of_the_others():
    assert shortened([str(n) for n in range(9)]) == ("0", "1", "2", "3", "and 5 more")
