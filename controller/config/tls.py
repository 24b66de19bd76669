"""The part of the controller's config that says how it proves its identity, and whose it accepts."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from heddle.controller.config.text.complaint import refusal
from heddle.controller.config.text.field import Shape
from heddle.controller.model.admission import Problem
from heddle.controller.model.error import InputError
from heddle.foundation.certificate import CertificateError
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls, TlsFiles


class TlsConfig(BaseModel):
    """Mutual TLS on OpenFlow, gRPC, HTTP and MQTT. On loopback nothing is required."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    certificate: str | None = Field(
        default=None, description="a PEM file: the controller's certificate and its chain; `heddle pki issue` writes it"
    )
    key: str | None = Field(default=None, description="a PEM file: the key of that certificate")
    ca: str | None = Field(
        default=None, description="a PEM file: the authority whose certificates switches, agents and callers show"
    )
    denied: str | None = Field(
        default=None, description="a file with a revoked serial number per line; read again when it changes"
    )

    @model_validator(mode="after")
    def _together(self) -> "TlsConfig":
        if len({bool(value) for value in (self.certificate, self.key, self.ca)}) > 1:
            raise ValueError("certificate, key and ca belong together")
        if self.denied and not self.certificate:
            raise ValueError("denied needs certificate, key and ca")
        return self

    @property
    def is_on(self) -> bool:
        """Return whether the controller speaks TLS and requests each peer's certificate."""
        return self.certificate is not None


class ClientTlsShape(Shape):
    """`tls` of a program that connects to the controller."""

    certificate: str = Field(
        description="a PEM file: the certificate and its chain; `heddle pki issue` writes it", examples=["cert.pem"]
    )
    key: str = Field(description="a PEM file: the key of that certificate", examples=["key.pem"])
    ca: str = Field(description="a PEM file: the authority of the controller's certificate", examples=["ca.pem"])


def client_tls(name: str, shape: ClientTlsShape | None, report: Callable[[str], None]) -> Tls | None:
    """Return the TLS that a config file of this name describes; raises InputError."""
    if shape is None:
        return None
    files = TlsFiles(certificate=Path(shape.certificate), key=Path(shape.key), ca=Path(shape.ca))
    try:
        return Tls(files, report)
    except CertificateError as error:
        raise refusal(name, [Problem("tls", f"{error}; `heddle pki issue` writes all three")]) from None


def opened(config: TlsConfig, report: Callable[[str], None]) -> Tls | None:
    """Return the controller's TLS, None where it has none; raises InputError. `report` gets later problems of files."""
    if config.certificate is None or config.key is None or config.ca is None:
        return None
    denied = Path(config.denied) if config.denied else None
    files = TlsFiles(certificate=Path(config.certificate), key=Path(config.key), ca=Path(config.ca), denied=denied)
    try:
        tls = Tls(files, report)
    except CertificateError as error:
        raise InputError(f"tls: {error}; `heddle pki issue` writes all three") from None
    if tls.identity.role is not Role.CONTROLLER:
        raise InputError(f"tls.certificate: of {tls.identity.uri}; a controller needs one of role controller")
    return tls
