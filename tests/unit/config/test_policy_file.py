import json

import pytest

from heddle.controller.access.scope import TenantScope
from heddle.controller.config.load import parse_fabric
from heddle.controller.config.policy_file import load_policy
from heddle.controller.model.error import InputError
from heddle.controller.model.tenant import Quota
from heddle.foundation.identity import Role
from tests.unit.brain.driver import small_fabric

WHOLE = """
version: 1
users: {alice: operator, grafana: viewer}
tenants:
  red:
    nics: [h1-n0, h2-n0]
    vteps: [10.9.0.0/24]
    public_ips: [203.0.113.0/28]
    vlans: [100]
    quotas: {jobs: 3, flows: 100, pins: 8, nics: 2, vpcs: 1}
  blue: {nics: {all: true}}
"""


def policy(tmp_path, text):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return load_policy(path, small_fabric())


def test_a_policy_names_tenants_with_nics_and_quotas_and_roles_of_users(tmp_path):
    found = policy(tmp_path, WHOLE)
    assert found.tenants["red"].nics == {"h1-n0", "h2-n0"}
    assert found.tenants["red"].quota == Quota(jobs=3, flows=100, pins=8, nics=2, vpcs=1)
    assert found.tenants["blue"].nics is None
    assert found.tenants["blue"].quota == Quota()
    assert [found.role_of_user(name) for name in ("alice", "grafana", "eve", None)] == [
        Role.OPERATOR, Role.VIEWER, Role.VIEWER, Role.VIEWER,
    ]  # fmt: skip


def test_a_policy_names_nics_with_all_their_ports(tmp_path):
    generate = {"kind": "spine_leaf", "spines": 2, "leaves": 2, "hosts_per_leaf": 1, "gbps": 100, "planes": 2}
    fabric = parse_fabric(json.dumps({"version": 1, "generate": generate}), "fabric.yaml")
    path = tmp_path / "policy.yaml"
    path.write_text("tenants: {red: {nics: [h1-n0]}}")
    scope = TenantScope("red", load_policy(path, fabric).tenants["red"], fabric)
    assert [nic.id for nic in scope.fabric(fabric).nics] == ["h1-n0/p0", "h1-n0/p1"]
    path.write_text("tenants: {red: {nics: [h1-n0/p0, h2-n0]}}")
    scope = TenantScope("red", load_policy(path, fabric).tenants["red"], fabric)
    assert {"h1-n0/p0", "h2-n0", "h2-n0/p1"} <= scope.fabric(fabric).ports_by_rank.keys()
    assert scope.fabric(fabric).ports_by_rank.keys().isdisjoint({"h1-n0", "h1-n0/p1"})


def test_without_users_all_who_log_in_are_operators(tmp_path):
    assert policy(tmp_path, "tenants: {}").role_of_user("eve") is Role.OPERATOR


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "users: {eve: root}",
            "policy.yaml: users.eve: 'root' is no role of a user of the page: use operator or viewer",
        ),
        ("users: {eve: tenant}", "is no role of a user of the page"),
        (
            "tenants: {red: {nics: [h1-n9]}}",
            "tenants.red.nics[0]: no NIC named 'h1-n9' in the fabric, did you mean h1-n0?",
        ),
        ("tenants: {red: {nics: [x, h1-n0]}}", "tenants.red.nics[0]: no NIC named 'x'"),
        ("tenants: {red: {nics: all}}", "tenants.red.nics: must be a list of NIC ids or {all: true}, is 'all'"),
        ("tenants: {red: {quotas: {job: 1}}}", "tenants.red.quotas.job: unknown key, did you mean jobs?"),
        ("tenants: {red: {quotas: {jobs: -1}}}", "tenants.red.quotas.jobs: "),
        ("tenants: {red: {vteps: [10.0.0.1/8]}}", "tenants.red.vteps[0]: '10.0.0.1/8' is no address or prefix"),
        ("tenants: {'a b': {}}", "tenants.a b: name 'a b': must be 1 to 48 letters"),
        ("tenant: {}", "tenant: unknown key, did you mean tenants?"),
        ("version: 2", "version: must be 1, is 2"),
    ],
)
def test_a_wrong_policy_is_one_line_with_its_place_and_the_remedy(tmp_path, text, line):
    with pytest.raises(InputError) as caught:
        policy(tmp_path, text)
    assert len(caught.value.problems) == 1
    assert line in caught.value.problems[0]
    assert caught.value.exit_status == 2
