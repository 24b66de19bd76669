"""What a balancer cannot serve is refused with one line each."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from heddle.dataplane.config.balancers import BackEnd, HealthCheck, Mode, Service
from heddle.dataplane.config.check_balancers import balancer_problems
from tests.fakes.balancer_site import BALANCERS, CONFIG, VIP, changed

END = BALANCERS[0].back_ends[0]


def test_the_site_of_the_tests_is_valid():
    assert balancer_problems(CONFIG) == ()


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"vip": IPv4Address("10.0.0.10")}, "is in use in red"),
        ({"port": 0}, "port: 0 is not within"),
        ({"back_ends": (replace(END, weight=1001),)}, "weight: 1001 is not within 0 to 1000"),
        ({"back_ends": ()}, "backends: 0; 1 to"),
        ({"back_ends": (BackEnd(ip=VIP, port=80),)}, "is the virtual IP itself"),
        ({"vpc": "green"}, "there is no vpc 'green'"),
        ({"back_ends": (replace(END, port=81),)}, "has the port 80 itself"),
        ({"back_ends": (END, END)}, "backends[1].ip: 10.0.0.51 port 80 is backends[0] already"),
        ({"back_ends": (replace(END, ip=IPv4Address("10.0.0.99")),)}, "is no endpoint of red"),
        ({"port": 53, "protocol": Service.UDP}, "is served by"),
        ({"port": 4791, "protocol": Service.UDP}, "use the protocol roce"),
        ({"protocol": Service.ROCE, "mode": Mode.FULL_NAT}, "RoCEv2 in direct return only"),
        ({"vpc": "blue", "mode": Mode.FULL_NAT, "port": 81}, "needs source addresses"),
        ({"health": HealthCheck(timeout_ms=2000)}, "timeout_ms 2000"),
        ({"health": HealthCheck(path="no path")}, "is no path of HTTP"),
        ({"health": HealthCheck(passive=True)}, "health_check.passive: of TCP by full_nat only"),
    ],
)
def test_each_mistake_has_a_line(fields, wanted):
    assert any(wanted in line for line in balancer_problems(changed(b0=fields)))
