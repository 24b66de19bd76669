"""A balancer file is read whole or refused with the place of each mistake; its sample is valid."""

from ipaddress import IPv4Address
from typing import Any

import pytest
import yaml

from heddle.controller.config.gateways.balancer_file import load_balancer_file, printed
from heddle.controller.model.error import InputError
from heddle.dataplane.config.balancers import Mode, Probe

WHOLE: Any = {
    "balancer_id": "lb1",
    "interfaces": [{"name": "eth1", "mac": "02:00:00:00:00:01", "address": "192.0.2.1", "network": "192.0.2.0/24"}],
    "vpcs": [
        {
            "id": "red",
            "vni": 100,
            "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}],
            "endpoints": [{"ip": "10.0.0.51", "mac": "02:00:00:00:00:51", "vtep_ip": "192.0.2.51"}],
        }
    ],
    "sites": [{"vpc": "red", "source_pool": ["10.0.0.201"]}],
    "load_balancers": [
        {
            "id": "web",
            "vpc_id": "red",
            "vip": "10.0.0.100",
            "port": 80,
            "mode": "full_nat",
            "backends": [{"ip": "10.0.0.51", "port": 8080, "weight": 3}],
            "health_check": {"kind": "http", "path": "/up"},
        }
    ],
}


def written(tmp_path, **changes):
    path = tmp_path / "lb.yaml"
    path.write_text(yaml.safe_dump({**WHOLE, **changes}))
    return path


def test_a_file_is_read(tmp_path):
    found = load_balancer_file(written(tmp_path))
    (each,) = found.services.balancers
    assert each.health is not None
    assert (each.mode, each.back_ends[0].weight, each.back_ends[0].port) == (Mode.FULL_NAT, 3, 8080)
    assert (each.health.kind, each.health.path, each.health.fall) == (Probe.HTTP, "/up", 3)
    assert found.services.sites[0].pool == (IPv4Address("10.0.0.201"),)


def test_a_number_with_zeros_before_it_is_refused_with_its_place(tmp_path):
    path = tmp_path / "lb.yaml"
    path.write_text(written(tmp_path).read_text().replace("port: 8080", "port: 08080"))
    with pytest.raises(InputError, match=r"load_balancers\[0\].backends\[0\].port: must be a whole number, is '08080'"):
        load_balancer_file(path)


def test_the_sample_names_every_key():
    assert {"balancer_id", "interfaces"} <= yaml.safe_load(printed()).keys()


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"colour": 1}, "colour"),
        ({"load_balancers": [{**WHOLE["load_balancers"][0], "mode": "magic"}]}, "'magic' is none of direct_return"),
        ({"load_balancers": [{**WHOLE["load_balancers"][0], "vip": "10.0.0.51"}]}, "is in use in red"),
        ({"load_balancers": [{**WHOLE["load_balancers"][0], "vpc_id": "blue"}]}, "there is no vpc 'blue'"),
        ({"load_balancers": [{**WHOLE["load_balancers"][0], "vip": "here"}]}, "'here' is no IP address"),
        ({"load_balancers": [{"nonsense": 1}]}, "load_balancers[0]"),
        ({"connections": 1000}, "1000 is no power of two"),
    ],
)
def test_a_mistake_is_named(tmp_path, changes, wanted):
    with pytest.raises(InputError) as refused:
        load_balancer_file(written(tmp_path, **changes))
    assert wanted in str(refused.value)
