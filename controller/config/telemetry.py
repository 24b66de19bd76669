"""The `telemetry` section of the config file of `heddle run`, and the collector settings that follow from it.

The keys, defaults and reasons of the thresholds are those of `telemetry.detection.thresholds`.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from heddle.controller.config.tls import TlsConfig
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.foundation.regular_file import open_regular
from heddle.telemetry.broker_tls import BrokerTls
from heddle.telemetry.collector.bus import Broker
from heddle.telemetry.detection.thresholds import DetectorSettings, reasons
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.topic import Source

MQTT_PORT = 1883
MAX_PASSWORD_BYTES = 4_096
WITHOUT = TlsConfig()


class _Bus(BaseModel):
    """Where the MQTT broker is and how to log in."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    broker: str | None = Field(
        default=None, description="the MQTT broker that agents publish to, HOST or HOST:PORT; null: no telemetry"
    )
    username: str | None = Field(default=None, description="the user name at the broker")
    password_file: str | None = Field(default=None, description="a file whose first line is the password")
    ca_file: str | None = Field(
        default=None,
        description="CA certificates, PEM; if given, connections use TLS; with `tls`, its `ca` by default",
    )
    certificate_file: str | None = Field(
        default=None, description="the certificate shown to the broker, PEM; with `tls`, its `certificate` by default"
    )
    key_file: str | None = Field(default=None, description="the key of that certificate, PEM")

    @field_validator("broker")
    @classmethod
    def _address(cls, text: str | None) -> str | None:
        if text is not None:
            _split(text)
        return text

    @model_validator(mode="after")
    def _together(self) -> "_Bus":
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file belong together")
        if self.certificate_file and not self.ca_file:
            raise ValueError("certificate_file needs ca_file")
        return self


def _split(text: str) -> tuple[str, int]:
    """Split HOST or HOST:PORT, with an IPv6 address in brackets; raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(MQTT_PORT)
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535 or not host.isprintable():
        raise ValueError("must be HOST or HOST:PORT such as 127.0.0.1:1883")
    return host.strip("[]"), int(port)


if TYPE_CHECKING:

    class TelemetryConfig(_Bus):
        """The class below as mypy sees it: the fields of DetectorSettings are read by name only."""

else:
    TelemetryConfig = create_model(
        "TelemetryConfig",
        __base__=_Bus,
        **{
            field.name: (type(field.default), Field(default=field.default, description=reasons()[field.name]))
            for field in dataclasses.fields(DetectorSettings)
        },
    )


def detector_settings(config: TelemetryConfig) -> DetectorSettings:
    """Return the thresholds of a config; they may be out of range (see `thresholds.complaints`)."""
    values: dict[str, Any] = {field.name: getattr(config, field.name) for field in dataclasses.fields(DetectorSettings)}
    return DetectorSettings(**values)


def acts_on(config: TelemetryConfig, tls: TlsConfig) -> bool:
    """Return whether telemetry may move flows: its broker is on this machine, or requires a password or TLS."""
    if config.broker is None:
        return False
    host, _ = _split(config.broker)
    return (
        host in ("localhost", "::1") or host.startswith("127.") or bool(config.username or config.ca_file or tls.is_on)
    )


def why_alarms_only(config: TelemetryConfig, tls: TlsConfig) -> str | None:
    """Return the line that says that telemetry moves nothing; None where it may, or there is none."""
    if config.broker is None or acts_on(config, tls):
        return None
    return (
        f"telemetry raises alarms only: the broker at {config.broker} is not on this machine and requires neither a "
        "password (telemetry.username) nor TLS (telemetry.ca_file, or tls), so that no plan follows what it says"
    )


def broker_of(config: TelemetryConfig, tls: TlsConfig = WITHOUT) -> Broker | None:
    """Return the broker, with the password read from its file; raises InputError if a file cannot be read.

    With `tls` the controller shows the broker the same certificate as everyone else.
    """
    if config.broker is None:
        return None
    host, port = _split(config.broker)
    password = None if config.password_file is None else _password(Path(config.password_file))
    return Broker(host=host, port=port, username=config.username, password=password, tls=_broker_tls(config, tls))


def _broker_tls(config: TelemetryConfig, tls: TlsConfig) -> BrokerTls | None:
    ca = config.ca_file or tls.ca
    if ca is None:
        return None
    certificate, key = (
        (config.certificate_file, config.key_file) if config.certificate_file else (tls.certificate, tls.key)
    )
    found = BrokerTls(
        ca=Path(ca), certificate=Path(certificate) if certificate else None, key=Path(key) if key else None
    )
    try:
        found.context()
    except (OSError, ValueError) as error:
        names = ", ".join(filter(None, (ca, certificate, key)))
        raise InputError(
            f"telemetry: TLS of the broker: {names}: {getattr(error, 'strerror', None) or error}"
        ) from None
    return found


def _password(path: Path) -> str:
    try:
        with open_regular(path) as file:
            line = file.readline(MAX_PASSWORD_BYTES)
        return line.decode().rstrip("\r\n")
    except OSError as error:
        raise InputError(f"telemetry.password_file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"telemetry.password_file: {path}: its first line is no text") from None


def ports_of(fabric: Fabric) -> PortTable:
    """Return every port that can have samples: both ends of each cable, each NIC, and the leaf port of each NIC."""
    found = [
        Port(str(end), Source.SWITCH, end.switch, cable.capacity_bps)
        for cable in fabric.cables
        for end in (cable.lower, cable.upper)
    ]
    for nic in fabric.nics:
        found.append(Port(str(nic.port), Source.SWITCH, nic.port.switch, nic.capacity_bps))
        found.append(Port(nic.id, Source.HOST, nic.host, nic.capacity_bps))
    return PortTable(found)
