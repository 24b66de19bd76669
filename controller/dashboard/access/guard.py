"""Guard every request: the Host header, the login, the token of actions, and the headers that browsers protect by.

A page of another site can make a browser send requests here. It cannot read the replies (no CORS header is sent), its
requests carry neither the session (SameSite) nor the token, and a name of its own that it points to this address (DNS
rebinding) is no name of this server.
"""

import hmac
import re
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heddle.controller.dashboard.access.login import COOKIE, Caller, Logins, TooManyAttemptsError
from heddle.controller.dashboard.http import connection_of
from heddle.controller.dashboard.routes import error_response

PROTECTED = ("/api/", "/metrics")
OPEN = ("/api/session", "/api/login")
METRICS = "/metrics"
POLICY = (
    "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
TLS_HEADERS = {"strict-transport-security": "max-age=31536000"}
TOKEN_HEADER = "x-csrf-token"
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_PORT = 65_535
_AUTHORITY = re.compile(r"(?:(?P<name>[a-z0-9_.-]+)|\[(?P<v6>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"https?://(?P<authority>[^/]*)")


class Guard:
    """An ASGI application around the server's own."""

    def __init__(self, application: ASGIApp, logins: Logins) -> None:
        self._application, self._logins = application, logins
        self._names = LOCAL_NAMES | {name.lower() for name in logins.rules.hosts}
        self._headers = HEADERS | (TLS_HEADERS if logins.rules.has_tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; every reply gets the headers."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        refusal = await self._refusal(Request(scope))
        await (refusal or self._application)(scope, receive, send_guarded)

    async def _refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request, None where it may pass; sets the scope's `caller` and `may_read`."""
        host = request.headers.get("host")  # HTTP/1.0 has none, and no browser speaks it
        if host is not None and host_name(host) not in self._names:
            return error_response(421, "the Host header names no address of this server; http_access.hosts lists more")
        caller = self._caller(request)
        request.scope["state"].update(caller=caller, may_read=lambda: self._caller(request) is not None)
        path = request.url.path
        if path.startswith(PROTECTED) and path not in OPEN and caller is None:
            return await self._unknown(request)
        if request.method not in ("GET", "HEAD"):
            return _forged(request, caller, self._names)
        return None

    def _caller(self, request: Request) -> Caller | None:
        header = self._logins.rules.proxy_header
        named = request.headers.getlist(header) if header is not None else ()
        holder = connection_of(request).holder
        identity = holder.identity if holder is not None else None
        return self._logins.caller(_address(request), cookie_of(request.headers), named, identity)

    async def _unknown(self, request: Request) -> Response | None:
        """Refuse a caller without a session, but one that reads metrics by `Authorization: Basic`."""
        given = request.headers.get("authorization", "")
        try:
            if request.url.path == METRICS and await self._logins.knows_basic(_address(request), given):
                return None
        except TooManyAttemptsError as error:
            return error_response(429, str(error))
        certificate = ", or show a certificate of an operator or viewer" if self._logins.rules.has_certificates else ""
        found = error_response(401, f"log in first{certificate}")
        if request.url.path == METRICS:
            found.headers["www-authenticate"] = 'Basic realm="heddle"'
        return found


def _forged(request: Request, caller: Caller | None, names: frozenset[str]) -> Response | None:
    """Refuse a request that changes something and is not from a page of this server."""
    origin = request.headers.get("origin")
    if origin is not None and origin_name(origin) not in names:
        return error_response(403, "the request comes from a page of another site")
    if request.url.path == "/api/login":
        return None
    given = request.headers.get(TOKEN_HEADER, "")
    if caller is None or not hmac.compare_digest(given.encode(), caller.csrf.encode()):
        return error_response(403, "the X-CSRF-Token header is missing or old; GET /api/session has the token")
    return None


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port and the brackets of an IPv6 address; lower case.

    None for what is no name or address with at most a port (RFC 9110 7.2): the whole header counts, so that no two
    programs read different names in it.
    """
    found = _AUTHORITY.fullmatch(host.lower())
    if found is None or int(found["port"] or 0) > MAX_PORT:
        return None
    return found["v6"] or found["name"].removesuffix(".")


def origin_name(origin: str) -> str | None:
    """Return the name in an Origin header: scheme, name and port alone (RFC 6454 6.2), None for any other text."""
    found = _ORIGIN.fullmatch(origin.lower())
    return host_name(found["authority"]) if found is not None else None


def cookie_of(headers: Headers) -> str | None:
    """Return the session's cookie."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return found.value if found is not None else None


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""
