"""The config section `cluster`: what is refused, with the key."""

import pytest

from heddle.controller.config.service import load_service
from heddle.controller.model.error import InputError

WHOLE = "cluster: {endpoints: ['10.0.0.1:2379'], name: c1, advertise: '10.0.0.11:50051'}\n"
REFUSED = {
    "cluster: {endpoints: ['10.0.0.1'], name: c1, advertise: '10.0.0.11:50051'}": "cluster.endpoints: '10.0.0.1'",
    "cluster: {endpoints: ['10.0.0.1:2379']}": "endpoints needs name and advertise",
    "cluster: {name: c1}": "name and advertise need endpoints",
    "cluster: {endpoints: ['10.0.0.1:2379'], name: c1, advertise: here}": "advertise: 'here' is no ADDR:PORT",
    "cluster: {leader: me}": "cluster.leader: unknown key; the keys are endpoints, name, advertise, lease_s, tls",
    "cluster: {endpoints: ['https://10.0.0.1:2379', '10.0.0.2:2379']}": "all of etcd's members are called by TLS",
    WHOLE.replace("'10.0.0.1", "'https://10.0.0.1"): "https:// needs a certificate: the section tls, or cluster.tls",
    WHOLE.replace("}", ", tls: {certificate: c, key: k, ca: a}}"): "tls needs endpoints with https://",
    "cluster: {tls: {certificate: c}}": "cluster.tls: certificate, key and ca belong together",
    "cluster: {tls: {denied: c}}": "cluster.tls.denied: unknown key; the keys are certificate, key, ca",
    "state: /var/lib/heddle\n" + WHOLE: "state: with cluster the journal is in etcd",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_section_that_cannot_work_is_refused(tmp_path, text):
    file = tmp_path / "heddle.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as why:
        load_service(file)
    assert REFUSED[text] in str(why.value)


TLS = "{certificate: c.pem, key: k.pem, ca: a.pem}"
HTTPS = WHOLE.replace("'10.0.0.1", "'https://10.0.0.1")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (WHOLE, None),
        (WHOLE.replace("'10.0.0.1", "'http://10.0.0.1") + f"tls: {TLS}", None),
        (HTTPS + f"tls: {TLS}", "c.pem"),
        (HTTPS.replace("}", ", tls: {certificate: e.pem, key: k.pem, ca: a.pem}}") + f"tls: {TLS}", "e.pem"),
    ],
)
def test_etcd_is_shown_the_files_of_the_controller_or_its_own(tmp_path, text, wanted):
    file = tmp_path / "heddle.yaml"
    file.write_text(text)
    config = load_service(file)
    files = config.cluster.tls_files(config.tls)
    assert (str(files.certificate) if files else None) == wanted


def test_a_controller_is_alone_by_default_and_one_of_several_with_the_section(tmp_path):
    file = tmp_path / "heddle.yaml"
    file.write_text(WHOLE)
    assert load_service(file).cluster.is_on
    assert not load_service(None).cluster.is_on
