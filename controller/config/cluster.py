"""The part of the controller's config that makes it one of several: one leads, the others wait."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from controller.model.server_address import is_address_port


class ClusterConfig(BaseModel):
    """Several controllers of one fabric, over etcd. Without endpoints a controller is alone."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    endpoints: list[str] = Field(default=[], description="ADDR:PORT of each member of etcd; none: one controller alone")
    name: str | None = Field(default=None, description="this controller's name; each has another")
    advertise: str | None = Field(
        default=None, description="ADDR:PORT where clients and the other controllers' callers reach this one (gRPC)"
    )
    lease_s: int = Field(
        default=2, ge=2, le=60, description="a leader that etcd has not heard for so long is replaced, seconds"
    )

    @field_validator("endpoints")
    @classmethod
    def _addresses(cls, endpoints: list[str]) -> list[str]:
        for endpoint in endpoints:
            if not is_address_port(endpoint):
                raise ValueError(f"{endpoint!r} is no ADDR:PORT such as 10.0.0.1:2379")
        return endpoints

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.endpoints and not (self.name and self.advertise):
            raise ValueError("endpoints needs name and advertise")
        if self.advertise and not is_address_port(self.advertise):
            raise ValueError(f"advertise: {self.advertise!r} is no ADDR:PORT such as 10.0.0.11:50051")
        if not self.endpoints and (self.name or self.advertise):
            raise ValueError("name and advertise need endpoints")
        return self

    @property
    def is_on(self) -> bool:
        """Return whether this controller is one of several."""
        return bool(self.endpoints)
