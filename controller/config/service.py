"""The config file of `heddle run`. Every key has a default and a description, which `--print-config` shows."""

import textwrap
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from heddle.controller.brain.settings import RANGES, Settings
from heddle.controller.config.access import HttpAccessConfig, exposure_problem
from heddle.controller.config.cluster import ClusterConfig, EtcdTlsConfig
from heddle.controller.config.exposure import exposed, refusal_of
from heddle.controller.config.limits import LimitsConfig
from heddle.controller.config.moves import MovesConfig
from heddle.controller.config.telemetry import TelemetryConfig, acts_on, detector_settings
from heddle.controller.config.text.complaint import refusal
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_document
from heddle.controller.config.tls import TlsConfig
from heddle.controller.model.admission import Problem
from heddle.controller.model.cabling import CablingPolicy
from heddle.controller.model.error import InputError
from heddle.controller.model.server_address import is_address_port, is_socket
from heddle.foundation.keepalive import KEEPALIVE_MS
from heddle.telemetry.detection.thresholds import complaints

_DEFAULTS = Settings()
DEFAULT_CABLING = _DEFAULTS.cabling.value


def _of_brain(name: str) -> Any:
    """Return the key of a setting of the brain."""
    known = RANGES[name]
    return Field(default=getattr(_DEFAULTS, name), ge=known.least, le=known.most, description=known.text)


class ServiceConfig(BaseModel):
    """The settings of a controller. Addresses are ADDR:PORT; port 0 takes any free one."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    openflow: str = Field(default="127.0.0.1:6653", description="where switches connect (OpenFlow 1.3 over TCP)")
    grpc: str = Field(
        default="127.0.0.1:50051", description="where jobs and tools connect (gRPC); unix:/PATH for a socket"
    )
    http: str = Field(
        default="127.0.0.1:8080",
        description="where browsers and Prometheus connect (HTTP); where the default is in use, a warning is logged",
    )
    http_access: HttpAccessConfig = Field(
        default=HttpAccessConfig(), description="TLS and the login of the page; required beyond loopback"
    )
    tls: TlsConfig = Field(
        default=TlsConfig(), description="mutual TLS: the controller's certificate, and whose it accepts"
    )
    insecure: bool = Field(
        default=False,
        description="OpenFlow and gRPC may listen beyond loopback without TLS; logged as a warning every hour",
    )
    keepalive_ms: int = Field(
        default=KEEPALIVE_MS,
        ge=100,
        le=600_000,
        description="a gRPC client that is silent for so long is probed, and has as long to respond, milliseconds",
    )
    limits: LimitsConfig = Field(
        default=LimitsConfig(), description="what one caller may have: an identity by TLS, else an address"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="the lowest severity that is logged to standard error"
    )
    default_lease_ms: int = _of_brain("default_lease_ms")
    max_lease_ms: int = _of_brain("max_lease_ms")
    max_waiting: int = _of_brain("max_waiting")
    max_jobs: int = _of_brain("max_jobs")
    vteps: list[str] = Field(
        default=[],
        description="addresses and prefixes of VTEPs beside the fabric's NICs; an endpoint of a VPC is behind one. "
        "With TLS each is in the certificate of its host's agent (heddle pki issue --ip)",
    )
    gateway_timeout_ms: int = _of_brain("gateway_timeout_ms")
    moves: MovesConfig = Field(
        default=MovesConfig(), description="how many running flows one decision may move to other paths, and whose"
    )
    port_hold_ms: int = _of_brain("hold_ms")
    route_settle_ms: int = _of_brain("settle_ms")
    pin_grace_ms: int = _of_brain("pin_grace_ms")
    follow_ms: int = _of_brain("follow_ms")
    audit_ms: int = _of_brain("audit_ms")
    probes_per_switch_pps: int = Field(
        default=300,  # half of what SONiC's switches reply to by default
        ge=1,
        le=1_000_000,
        description="on a fabric that hashes: the probes per second that may expire at one switch",
    )
    samples_per_switch_pps: int = Field(
        default=20,  # a fifteenth of what searches may take
        ge=0,
        le=1_000_000,
        description="on a fabric that hashes: those of them that sample running flows, to find a changed hash; 0: none",
    )
    mesh_probes_pps: int = Field(
        default=10,  # of 110 bytes: a millionth of a link of 10 Gbit/s
        ge=0,
        le=1_000,
        description="on a fabric with rules, or of packets that name their paths: the probes per second that each NIC "
        "with a probe agent sends, to find cables that lose packets; 0: none",
    )
    quarantine_ms: int = _of_brain("quarantine_ms")
    congestion_pause_ms: int = _of_brain("congestion_pause_ms")
    cabling: str = Field(
        default=DEFAULT_CABLING,
        description="what plans do with a cable that is plugged elsewhere than the fabric file says: "
        "exclude leaves it out of use, follow does so until it is used as it was found, ignore uses it as if it were "
        "right; all name it",
    )
    cabling_max_percent: int = _of_brain("cabling_max_percent")
    telemetry: TelemetryConfig = Field(
        default=TelemetryConfig(), description="the MQTT broker of the agents, and the thresholds of conditions"
    )
    state: str | None = Field(
        default=None,
        description="the directory of what survives a restart: jobs, virtual networks, drains; none: nothing does; "
        "null: /var/lib/heddle for root, ~/.local/state/heddle for others",
    )
    cluster: ClusterConfig = Field(
        default=ClusterConfig(), description="several controllers of one fabric over etcd; state is then there"
    )
    history: str | None = Field(
        default=None,
        description="a SQLite file for events and what ports counted per second, minute and hour; null: none",
    )
    history_megabytes: int = Field(
        default=256, ge=1, le=1_000_000, description="how large that file may grow; the oldest seconds go first"
    )
    record: str | None = Field(
        default=None,
        description="a directory for events and decisions, for `heddle replay`; null: none",
    )
    record_megabytes: int = Field(
        default=64, ge=1, le=1_000_000, description="how large that directory may grow; the oldest go first"
    )

    policy: str | None = Field(
        default=None,
        description="the policy file: tenants with their NICs and quotas, users of the page (docs/files.md)",
    )
    audit: str | None = Field(
        default=None,
        description="a file with a line for each call that changes something; none: no file; "
        "null: audit.jsonl in the state directory, if there is one",
    )
    audit_megabytes: int = Field(
        default=64, ge=1, le=1_000_000, description="how large that file and the one before, FILE.1, may grow together"
    )

    @property
    def exposed(self) -> dict[str, str]:
        """Return the addresses, by key, at which any peer may do everything: beyond loopback without TLS."""
        return exposed(self.tls, openflow=self.openflow, grpc=self.grpc)

    def of_brain(self) -> Settings:
        """Return the settings of the brain."""
        own = {name: getattr(self, known.key) for name, known in RANGES.items()}
        return Settings(
            **own, cabling=CablingPolicy(self.cabling), moves=self.moves.limits(),
            acts_on_telemetry=acts_on(self.telemetry, self.tls),
            period_ms=detector_settings(self.telemetry).period_ms,
        )  # fmt: skip

    @field_validator("vteps")
    @classmethod
    def _prefixes(cls, texts: list[str]) -> list[str]:
        for text in texts:
            try:
                IPv4Network(text)
            except ValueError as error:
                raise ValueError(f"{text!r} is no IPv4 address or prefix ({error})") from None
        return texts

    @field_validator("cabling")
    @classmethod
    def _policy(cls, text: str) -> str:
        if text not in set(CablingPolicy):
            raise ValueError(f"must be exclude, follow or ignore; is {text!r}")
        return text

    @field_validator("openflow", "http")
    @classmethod
    def _address(cls, text: str) -> str:
        if not is_address_port(text):
            raise ValueError("must be ADDR:PORT such as 127.0.0.1:6653, port 0 for any")
        return text

    @field_validator("grpc")
    @classmethod
    def _address_or_socket(cls, text: str) -> str:
        if not is_address_port(text) and not is_socket(text):
            raise ValueError("must be ADDR:PORT such as 127.0.0.1:50051, port 0 for any, or unix:/PATH of a socket")
        return text


def load_service(
    path: Path | None, *, openflow: str | None = None, grpc: str | None = None, http: str | None = None,
    state: str | None = None, insecure: bool = False,
) -> ServiceConfig:  # fmt: skip
    """Read the config file, if any; the command line overrides it. Raises InputError."""
    name: str = "heddle run"
    values: dict[str, object] = {}
    if path is not None:
        name, values = read_document(path, MAX_SETTINGS_BYTES)
    options = {"openflow": openflow, "grpc": grpc, "http": http, "state": state, "insecure": insecure or None}
    given = {key: value for key, value in options.items() if value is not None}
    try:
        config = ServiceConfig.model_validate({**values, **given})
    except ValidationError as errors:
        raise _refused(name, errors) from None
    if config.cluster.is_on and config.state not in (None, "none"):
        raise refusal(name, [Problem("state", "with cluster the journal is in etcd: leave state out, or none")])
    try:
        config.cluster.tls_files(config.tls)
    except ValueError as error:
        raise refusal(name, [Problem("cluster.endpoints", str(error))]) from None
    if (problem := exposure_problem(config.http, config.http_access, config.tls)) is not None:
        raise refusal(name, [Problem("http", problem)])
    if config.exposed and not config.insecure:
        raise refusal(name, [Problem(key, refusal_of(address)) for key, address in config.exposed.items()])
    out_of_range = complaints(detector_settings(config.telemetry))
    if out_of_range:
        raise refusal(name, [Problem(f"telemetry.{key}", text) for key, text in out_of_range.items()])
    return config


_SECTIONS: dict[str, type[BaseModel]] = {
    "telemetry": TelemetryConfig,
    "moves": MovesConfig,
    "http_access": HttpAccessConfig,
    "tls": TlsConfig,
    "limits": LimitsConfig,
    "cluster": ClusterConfig,
    "cluster.tls": EtcdTlsConfig,
    "": ServiceConfig,
}
_YAML = {"None": "null", "True": "true", "False": "false"}


def _refused(name: str, errors: ValidationError) -> InputError:
    found = []
    for error in errors.errors():
        key = ".".join(str(step) for step in error["loc"])
        inside = next(_SECTIONS[loc] for loc in (key.rpartition(".")[0], str(error["loc"][0]), "") if loc in _SECTIONS)
        keys = ", ".join(inside.model_fields)
        text = f"unknown key; the keys are {keys}" if error["type"] == "extra_forbidden" else error["msg"]
        found.append(Problem(key, text.removeprefix("Value error, ")))
    return refusal(name, found)


def printed() -> str:
    """Return a config file with every key at its default, and a comment above each."""
    lines = ["# The config file of `heddle run --config FILE`, with every key at its default.", *_keys(ServiceConfig)]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _keys(section: type[BaseModel]) -> list[str]:
    lines: list[str] = []
    for key, field in section.model_fields.items():
        lines += textwrap.wrap(field.description or "", 110, initial_indent="# ", subsequent_indent="#   ")
        if isinstance(field.default, BaseModel):
            lines += [f"{key}:", *(f"  {line}" for line in _keys(type(field.default)))]
        else:
            lines += [f"{key}: {_text(field.default)}", ""]
    return lines


def _text(value: object) -> str:
    """Return a default as YAML 1.1 reads it: `1e-05` would be a text there."""
    if isinstance(value, float) and "e" in str(value):
        return f"{value:.12f}".rstrip("0")
    return _YAML.get(str(value), str(value))
