"""The part of the controller's config that limits access to the page: TLS, a login, a trusted proxy, names."""

from ipaddress import ip_address, ip_network

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from heddle.controller.config.tls import TlsConfig
from heddle.controller.model.server_address import split_address

HASH_PREFIX = "$argon2"


class HttpAccessConfig(BaseModel):
    """Access to the page and the metrics over HTTP. On loopback nothing is required."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    certificate: str | None = Field(
        default=None, description="a PEM file: the server's certificate and its chain (TLS)"
    )
    key: str | None = Field(default=None, description="a PEM file: the key of that certificate")
    user: str | None = Field(default=None, description="the name of the one login")
    password_hash: str | None = Field(
        default=None, repr=False, description="the argon2 hash of its password; docs/dashboard.md says how to make one"
    )
    proxy_header: str | None = Field(
        default=None, description="the header in which a trusted proxy names the user who has logged in there"
    )
    proxies: list[str] = Field(default=[], description="addresses and prefixes of trusted proxies")
    hosts: list[str] = Field(
        default=[], description="names of this server in URLs, beside the address that it is bound to and localhost"
    )

    @field_validator("password_hash")
    @classmethod
    def _hash(cls, text: str | None) -> str | None:
        if text is not None and not text.startswith(HASH_PREFIX):
            raise ValueError("is no argon2 hash ($argon2id$...)")
        return text

    @field_validator("proxies")
    @classmethod
    def _prefixes(cls, texts: list[str]) -> list[str]:
        for text in texts:
            try:
                ip_network(text)
            except ValueError as error:
                raise ValueError(f"{text!r} is no address or prefix ({error})") from None
        return texts

    @model_validator(mode="after")
    def _pairs(self) -> "HttpAccessConfig":
        for one, other in (("certificate", "key"), ("user", "password_hash"), ("proxy_header", "proxies")):
            if bool(getattr(self, one)) != bool(getattr(self, other)):
                raise ValueError(f"{one} and {other} belong together")
        return self

    @property
    def has_login(self) -> bool:
        """Return whether a caller has to log in, here or at a trusted proxy."""
        return self.user is not None or self.proxy_header is not None


def exposure_problem(http: str, access: HttpAccessConfig, tls: TlsConfig) -> str | None:
    """Return why HTTP may not listen on this address, None where it may: beyond loopback with TLS and a login alone."""
    host, _ = split_address(http)
    if is_loopback(host) or tls.is_on or (access.certificate is not None and access.has_login):
        return None
    return (
        f"{http} is reachable from other machines: set tls, or http_access.certificate and key with a login "
        "(http_access.user and password_hash, or proxy_header and proxies), or bind to 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
