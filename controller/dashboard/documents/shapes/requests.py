"""Shapes of the login, of actions and of refusals."""

from typing import NotRequired  # pydantic reads no other before Python 3.12

from typing_extensions import TypedDict


class Session(TypedDict):
    """Who the caller is, and the token that actions carry; `login`: the caller can log in here with a password.

    `collectives` are the kinds that a preview of ranks takes without a list of flows.
    """

    user: str | None
    may_act: bool
    csrf: str | None
    login: bool
    collectives: list[str]


class LoginRequest(TypedDict):
    """The one login."""

    user: str
    password: str


class DrainRequest(TypedDict):
    """Drain a link or a switch, or return it to use; `dry_run` says what would move."""

    target: str
    undrain: NotRequired[bool]
    dry_run: NotRequired[bool]


class ReleaseRequest(TypedDict):
    """End a job; `dry_run` says what would be released."""

    job: str
    dry_run: NotRequired[bool]


class PreviewRequest(TypedDict):
    """A jobs file with one job (YAML), or the NICs of the ranks with one collective."""

    jobs: NotRequired[str]
    ranks: NotRequired[list[str]]
    collective: NotRequired[str]
    size_bytes: NotRequired[int]


class Done(TypedDict):
    """What an action has moved, or with `dry_run` would move: flows, and the jobs that they belong to."""

    dry_run: bool
    moves: int
    jobs: list[str]
    text: str


class Refusal(TypedDict):
    """Why a request is refused, a line for each problem."""

    error: str
