"""The telemetry section of the config file."""

import pytest

from heddle.controller.config.service import ServiceConfig, load_service
from heddle.controller.config.telemetry import (
    TelemetryConfig,
    acts_on,
    broker_of,
    detector_settings,
    ports_of,
    why_alarms_only,
)
from heddle.controller.model.error import InputError
from heddle.foundation.identity import Role
from heddle.telemetry.broker_tls import BrokerTls
from heddle.telemetry.detection.thresholds import DetectorSettings
from tests.support.certificates import authority, files_of
from tests.unit.brain.driver import small_fabric


def loaded(tmp_path, text):
    path = tmp_path / "service.yaml"
    path.write_text(text)
    return load_service(path)


def test_without_a_broker_there_is_no_telemetry():
    assert broker_of(ServiceConfig().telemetry) is None


def test_the_defaults_are_the_detectors():
    assert detector_settings(TelemetryConfig()) == DetectorSettings()


def test_a_broker_with_its_password(tmp_path):
    (tmp_path / "secret").write_text("s3cret\nmore\n")
    text = f"telemetry: {{broker: bus.example, username: heddle, password_file: {tmp_path / 'secret'}}}"
    config = loaded(tmp_path, text)
    broker = broker_of(config.telemetry)
    assert broker is not None
    assert (broker.host, broker.port, broker.username, broker.password) == ("bus.example", 1883, "heddle", "s3cret")
    assert "s3cret" not in repr(config) + repr(broker)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("[::1]:1884", "::1", 1884), ("127.0.0.1:1", "127.0.0.1", 1), ("[::1]", "::1", 1883), ("bus", "bus", 1883)],
)
def test_an_address_may_leave_its_port_out(tmp_path, text, host, port):
    broker = broker_of(loaded(tmp_path, f"telemetry: {{broker: '{text}'}}").telemetry)
    assert broker is not None
    assert (broker.host, broker.port) == (host, port)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("congestion_clear_share: 0.5", "telemetry.congestion_clear_share: must be between 0"),
        ("congestion_raise_share: .nan", "telemetry.congestion_raise_share: must be over 0"),
        ("period_ms: 1", "telemetry.period_ms: must be between 10 and 60000"),
        ("period_ms: soon", "telemetry.period_ms: "),
        ("perod_ms: 5", "telemetry.perod_ms: unknown key; the keys are broker"),
        ("broker: 127.0.0.1:99999", "telemetry.broker: must be HOST or HOST:PORT"),
        ("broker: ':1883'", "telemetry.broker: must be HOST or HOST:PORT"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_key(tmp_path, line, expected):
    with pytest.raises(InputError) as refused:
        loaded(tmp_path, f"telemetry:\n  {line}\n")
    assert expected in str(refused.value)


@pytest.mark.parametrize("key", ["password_file", "ca_file"])
def test_a_file_that_is_not_there_is_refused_with_its_key(tmp_path, key):
    config = loaded(tmp_path, f"telemetry: {{broker: bus, {key}: {tmp_path / 'nothing'}}}")
    with pytest.raises(InputError, match=f"telemetry.*{tmp_path / 'nothing'}.*No such file"):
        broker_of(config.telemetry)


def test_every_end_of_a_cable_and_every_nic_is_a_port():
    fabric = small_fabric()
    table = ports_of(fabric)
    assert len(table) == 2 * len(fabric.cables) + 2 * len(fabric.nics)
    nic = fabric.nics[0]
    assert {nic.id, str(nic.port), str(fabric.cables[0].upper)} <= set(table.names)


def test_with_tls_the_broker_sees_the_controllers_certificate_unless_telemetry_has_its_own(tmp_path):
    ours = files_of(authority(), Role.CONTROLLER, "c1", tmp_path / "ours")
    other = files_of(authority(), Role.CONTROLLER, "c1", tmp_path / "other")
    tls = f"tls: {{certificate: {ours.certificate}, key: {ours.key}, ca: {ours.ca}}}\n"
    own = f", certificate_file: {other.certificate}, key_file: {other.key}, ca_file: {other.ca}"
    for more, files in (("", ours), (own, other)):
        config = loaded(tmp_path, f"{tls}telemetry: {{broker: 'bus:8883'{more}}}")
        broker = broker_of(config.telemetry, config.tls)
        assert broker is not None
        assert broker.tls == BrokerTls(ca=files.ca, certificate=files.certificate, key=files.key)
        assert acts_on(config.telemetry, config.tls)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("broker: 10.0.0.9", "the broker at 10.0.0.9 is not on this machine and requires neither a password"),
        ("broker: 10.0.0.9, username: heddle", None),
        ("broker: 127.0.0.1", None),
        ("period_ms: 100", None),
    ],
)
def test_a_broker_that_telemetry_may_not_act_on_is_said_in_one_line(tmp_path, text, says):
    config = loaded(tmp_path, f"telemetry: {{{text}}}")
    line = why_alarms_only(config.telemetry, config.tls)
    assert (line is None) is (says is None)
    assert says is None or says in str(line)


def test_a_certificate_without_its_key_or_ca_is_refused(tmp_path):
    for keys in ("certificate_file: a", "certificate_file: a, key_file: b"):
        with pytest.raises(InputError, match=r"telemetry: .*certificate_file"):
            loaded(tmp_path, f"telemetry: {{broker: bus, {keys}}}")
