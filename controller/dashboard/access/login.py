"""Identify the caller of the page: a session of the one login, a proxy's user, a certificate's holder, or anyone.

A session is a random cookie (HttpOnly, SameSite=Strict) that lives in memory: a restart of the controller ends it.
Actions carry a CSRF token as well, which only a page of this server can read. Passwords are compared by argon2 in a
thread, one at a time, since each comparison takes tens of MB and milliseconds; wrong ones are limited per address.
"""

import asyncio
import hmac
import secrets
from base64 import b64decode
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from heddle.foundation.identity import Identity, Role

COOKIE = "heddle_session"
SESSION_S = 12 * 3_600.0
MAX_SESSIONS = 256
MAX_FAILURES = 5
"""Wrong passwords of one address within FAILURE_S; more attempts are refused until one is older."""
FAILURE_S = 60.0
MAX_ADDRESSES = 1_024
MAX_WAITING = 8
"""The comparisons that wait."""

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """What a caller has to show; `has_tls` is whether cookies are for encrypted connections only."""

    hosts: frozenset[str] = frozenset()
    has_tls: bool = False
    user: str | None = None
    password_hash: str | None = None
    proxy_header: str | None = None
    proxies: tuple[Network, ...] = ()
    may_act: Callable[[str | None], bool] = lambda user: True
    """Whether a user may do more than read."""
    has_certificates: bool = False
    """Whether operators and viewers may show a certificate instead of a login."""

    @property
    def needs_login(self) -> bool:
        """Return whether anonymous callers may not read."""
        return self.user is not None or self.proxy_header is not None or self.has_certificates


class Caller(NamedTuple):
    """A caller who may read: the name, None for anyone on loopback, and the token that actions carry."""

    user: str | None
    csrf: str
    may_act: bool = True


class TooManyAttemptsError(Exception):
    """The address has sent too many wrong passwords, or too many comparisons wait."""


class Logins:
    """The sessions of one server. `now_s` is a time that only grows."""

    def __init__(self, rules: AccessRules, now_s: Callable[[], float]) -> None:
        self.rules = rules
        self._now_s = now_s
        self._key = secrets.token_bytes(32)
        self._sessions: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._hasher = PasswordHasher()
        self._comparing = asyncio.Lock()
        self._waiting = 0

    def caller(
        self, address: str, cookie: str | None, named: Sequence[str], holder: Identity | None = None
    ) -> Caller | None:
        """Return the caller of a request, None where a login is required.

        `named` is what the proxy's header holds, `holder` the operator or viewer whose certificate was shown.
        """
        if not self.rules.needs_login:
            return self._known(None, "")
        if named and len(named) == 1 and named[0] and self._is_proxy(address):
            return self._known(named[0], f"proxy {named[0]}")
        user, until_s = self._sessions.get(cookie or "", ("", 0.0))
        if user and self._now_s() < until_s:
            return self._known(user, f"session {cookie}")
        if holder is not None:
            return Caller(holder.common_name, self._token(f"certificate {holder.uri}"), holder.role is Role.OPERATOR)
        return None

    def _known(self, user: str | None, subject: str) -> Caller:
        return Caller(user, self._token(subject), self.rules.may_act(user))

    async def log_in(self, address: str, user: str, password: str) -> str | None:
        """Return the cookie of a new session, None for a wrong password; raises TooManyAttemptsError."""
        if not await self.is_correct(address, user, password):
            return None
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = (user, self._now_s() + SESSION_S)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie

    def log_out(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(cookie, None)

    async def is_correct(self, address: str, user: str, password: str) -> bool:
        """Return whether user and password are those of the login; raises TooManyAttemptsError."""
        if self.rules.user is None or self.rules.password_hash is None:
            return False
        if self._recent(address) >= MAX_FAILURES or self._waiting >= MAX_WAITING:
            raise TooManyAttemptsError(f"too many attempts; try again in {FAILURE_S:.0f} s")
        self._waiting += 1
        try:
            async with self._comparing:
                if self._recent(address) >= MAX_FAILURES:  # those that waited before this one
                    raise TooManyAttemptsError(f"too many attempts; try again in {FAILURE_S:.0f} s")
                matches = await asyncio.to_thread(self._matches, self.rules.password_hash, password)
                found = matches and hmac.compare_digest(user.encode(), self.rules.user.encode())
                if not found:
                    self._failed(address)
        finally:
            self._waiting -= 1
        return found

    async def knows_basic(self, address: str, authorization: str) -> bool:
        """Return whether `Authorization: Basic` names the login (RFC 7617): how Prometheus logs in."""
        kind, _, encoded = authorization.partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            user, _, password = b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return False
        return await self.is_correct(address, user, password)

    def _matches(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (Argon2Error, InvalidHashError):
            return False

    def _token(self, subject: str) -> str:
        return hmac.new(self._key, subject.encode(), "sha256").hexdigest()

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in network for network in self.rules.proxies)
        except ValueError:
            return False

    def _recent(self, address: str) -> int:
        """Return the number of wrong passwords of an address within FAILURE_S."""
        failures = self._failures.get(address)
        while failures and failures[0] <= self._now_s() - FAILURE_S:
            failures.popleft()
        return len(failures or ())

    def _failed(self, address: str) -> None:
        self._failures.setdefault(address, deque(maxlen=MAX_FAILURES)).append(self._now_s())
        self._failures.move_to_end(address)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
