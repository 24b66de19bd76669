"""The part of the controller's config that says how it proves its identity, and whose it accepts."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from controller.model.error import InputError
from foundation.certificate import CertificateError
from foundation.identity import Role
from foundation.tls_files import Tls, TlsFiles


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
        """Return whether the controller speaks TLS and asks each peer for its certificate."""
        return self.certificate is not None


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
