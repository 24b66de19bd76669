"""The part of the controller's config that limits moves: per cause, whose flows may move, and how many."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from heddle.controller.model.moves import DEFAULT_MOVES, MAX_MOVES, NO_MOVES, Cause, MoveLimit, Whose


def _text(limit: MoveLimit) -> str:
    if limit.moves_none:
        return "none"
    return f"{limit.whose.name.lower()} {'unlimited' if limit.max_flows == MAX_MOVES else limit.max_flows}"


def _limit(text: str) -> MoveLimit:
    """Read `any 64`; raises ValueError."""
    whose, _, count = text.partition(" ")
    if text == "none":
        return MoveLimit()
    if whose.upper() not in Whose.__members__ or not (count == "unlimited" or count.isdecimal()):
        names = ", ".join(name.lower() for name in Whose.__members__)
        raise ValueError(f"must be none, or one of {names} and a number or unlimited, such as any 64; is {text!r}")
    flows = MAX_MOVES if count == "unlimited" else int(count)
    if flows > MAX_MOVES:
        raise ValueError(f"at most {MAX_MOVES} flows, or unlimited")
    return MoveLimit(whose=Whose[whose.upper()], max_flows=flows)


def _default(cause: Cause) -> str:
    return _text(DEFAULT_MOVES[cause])


class MovesConfig(BaseModel):
    """How many running flows one decision may move to other paths, and whose; a job may have limits of its own."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    arrival: str = Field(
        default=_default(Cause.ARRIVAL),
        description="for a job that arrives; whose: none, own_job, tenant, lower_priority or any; then how many",
    )
    release: str = Field(default=_default(Cause.RELEASE), description="after a job has left")
    failure: str = Field(
        default=_default(Cause.FAILURE), description="after a failure, beside the flows that have lost their path"
    )
    recovery: str = Field(default=_default(Cause.RECOVERY), description="after links have returned")
    congestion: str = Field(default=_default(Cause.CONGESTION), description="off a congested port")
    drain: str = Field(default=_default(Cause.DRAIN), description="for a drain, beside the flows on its target")
    convergence: str = Field(
        default=_default(Cause.CONVERGENCE),
        description="to a plan of all flows that makes jobs faster on average, for jobs whose senders drain before a"
        " move; none, or any and how many; where `moves` has other keys only: none",
    )

    @field_validator("*")
    @classmethod
    def _readable(cls, text: str) -> str:
        _limit(text)
        return text

    @field_validator("convergence")
    @classmethod
    def _of_all(cls, text: str) -> str:
        if _limit(text).whose not in (Whose.NONE, Whose.ANY):
            raise ValueError(f"is on behalf of no job: must be none, or any and a number or unlimited; is {text!r}")
        return text

    def limits(self) -> dict[Cause, MoveLimit]:
        """Return the limit of each cause; a policy that is written without `convergence` has none."""
        limits = {cause: _limit(getattr(self, cause.name.lower())) for cause in Cause}
        if self.model_fields_set and "convergence" not in self.model_fields_set:
            limits[Cause.CONVERGENCE] = NO_MOVES
        return limits
