"""The config section `cluster`: what is refused, with the key."""

import pytest

from controller.config.service import load_service
from controller.model.error import InputError

WHOLE = "cluster: {endpoints: ['10.0.0.1:2379'], name: c1, advertise: '10.0.0.11:50051'}\n"
REFUSED = {
    "cluster: {endpoints: ['10.0.0.1'], name: c1, advertise: '10.0.0.11:50051'}": "cluster.endpoints: '10.0.0.1'",
    "cluster: {endpoints: ['10.0.0.1:2379']}": "endpoints needs name and advertise",
    "cluster: {name: c1}": "name and advertise need endpoints",
    "cluster: {endpoints: ['10.0.0.1:2379'], name: c1, advertise: here}": "advertise: 'here' is no ADDR:PORT",
    "cluster: {leader: me}": "cluster.leader: unknown key; the keys are endpoints, name, advertise, lease_s",
    "state: /var/lib/heddle\n" + WHOLE: "state: with cluster the journal is in etcd",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_section_that_cannot_work_is_refused(tmp_path, text):
    file = tmp_path / "heddle.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as why:
        load_service(file)
    assert REFUSED[text] in str(why.value)


def test_a_controller_is_alone_by_default_and_one_of_several_with_the_section(tmp_path):
    file = tmp_path / "heddle.yaml"
    file.write_text(WHOLE)
    assert load_service(file).cluster.is_on
    assert not load_service(None).cluster.is_on
