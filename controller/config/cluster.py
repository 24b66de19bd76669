"""The part of the controller's config that makes it one of several: one leads, the others wait."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from heddle.controller.config.tls import TlsConfig
from heddle.controller.model.server_address import is_address_port
from heddle.foundation.tls_files import TlsFiles

HTTP, HTTPS = "http://", "https://"


class EtcdTlsConfig(BaseModel):
    """Mutual TLS to etcd by other files than those of `tls`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    certificate: str | None = Field(
        default=None, description="a PEM file: what this controller shows to etcd; null: tls.certificate"
    )
    key: str | None = Field(default=None, description="a PEM file: the key of that certificate")
    ca: str | None = Field(default=None, description="a PEM file: the authority of etcd's certificates")

    @model_validator(mode="after")
    def _together(self) -> Self:
        if len({bool(value) for value in (self.certificate, self.key, self.ca)}) > 1:
            raise ValueError("certificate, key and ca belong together")
        return self


class ClusterConfig(BaseModel):
    """Several controllers of one fabric, over etcd. Without endpoints a controller is alone."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    endpoints: list[str] = Field(
        default=[],
        description="ADDR:PORT of each member of etcd, https:// before it for TLS; none: one controller alone",
    )
    name: str | None = Field(default=None, description="this controller's name; each has another")
    advertise: str | None = Field(
        default=None, description="ADDR:PORT where clients and the other controllers' callers reach this one (gRPC)"
    )
    lease_s: int = Field(
        default=2, ge=2, le=60, description="a leader that etcd has not heard for so long is replaced, seconds"
    )
    tls: EtcdTlsConfig = Field(default=EtcdTlsConfig(), description="towards etcd, where other files than tls are used")
    memory: str | None = Field(
        default=None,
        description="the directory where this controller remembers which etcd it has used: another one, or an empty "
        "one, is refused; none: while it runs only; null: /var/lib/heddle for root, ~/.local/state/heddle for others",
    )

    @field_validator("endpoints")
    @classmethod
    def _addresses(cls, endpoints: list[str]) -> list[str]:
        for endpoint in endpoints:
            if not is_address_port(endpoint.removeprefix(HTTP).removeprefix(HTTPS)):
                raise ValueError(f"{endpoint!r} is no ADDR:PORT such as 10.0.0.1:2379 or https://10.0.0.1:2379")
        if len({endpoint.startswith(HTTPS) for endpoint in endpoints}) > 1:
            raise ValueError("all of etcd's members are called by TLS (https://), or none")
        return endpoints

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.endpoints and not (self.name and self.advertise):
            raise ValueError("endpoints needs name and advertise")
        if self.advertise and not is_address_port(self.advertise):
            raise ValueError(f"advertise: {self.advertise!r} is no ADDR:PORT such as 10.0.0.11:50051")
        if not self.endpoints and (self.name or self.advertise):
            raise ValueError("name and advertise need endpoints")
        if self.tls.certificate and not self.has_tls:
            raise ValueError("tls needs endpoints with https://")
        return self

    @property
    def has_tls(self) -> bool:
        """Return whether etcd is called by TLS."""
        return any(endpoint.startswith(HTTPS) for endpoint in self.endpoints)

    def tls_files(self, tls: TlsConfig) -> TlsFiles | None:
        """Return the files for etcd, None without TLS; `tls` is the controller's own section. Raises ValueError."""
        if not self.has_tls:
            return None
        used = self.tls if self.tls.certificate else tls
        if used.certificate is None or used.key is None or used.ca is None:
            raise ValueError("https:// needs a certificate: the section tls, or cluster.tls")
        return TlsFiles(certificate=Path(used.certificate), key=Path(used.key), ca=Path(used.ca))

    @property
    def is_on(self) -> bool:
        """Return whether this controller is one of several."""
        return bool(self.endpoints)
