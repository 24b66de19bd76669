"""The part of the controller's config that says how it proves its identity, and whose it accepts."""

from pydantic import BaseModel, ConfigDict, Field, model_validator


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
