"""The HTTP routes of the login: show the caller, log in, log out."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from heddle.controller.dashboard.access.guard import cookie_of
from heddle.controller.dashboard.access.login import COOKIE, SESSION_S, Caller, Logins, TooManyAttemptsError
from heddle.controller.dashboard.body import body_of
from heddle.controller.dashboard.documents.shapes.requests import LoginRequest, Session
from heddle.controller.dashboard.documents.text import json_text
from heddle.controller.dashboard.routes import MEDIA_TYPE, error_response, refused
from heddle.controller.model.error import HeddleError
from heddle.controller.model.job import OFFERED_KINDS


class SessionRoutes:
    """The session of each caller."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/session", self._session, methods=["GET"]),
            Route("/api/login", self._log_in, methods=["POST"]),
            Route("/api/logout", self._log_out, methods=["POST"]),
        ]

    async def _session(self, request: Request) -> Response:
        return _reply(session_document(request.scope["state"]["caller"], self._logins.rules.user is not None))

    async def _log_in(self, request: Request) -> Response:
        try:
            wanted = await body_of(request, LoginRequest)
            address = request.client.host if request.client is not None else ""
            cookie = await self._logins.log_in(address, wanted["user"], wanted["password"])
        except TooManyAttemptsError as error:
            return error_response(429, str(error))
        except HeddleError as error:
            return refused(error)
        if cookie is None:
            return error_response(403, "the user or the password is wrong")
        caller = self._logins.caller("", cookie, ())
        return self._with_cookie(_reply(session_document(caller, True)), cookie, int(SESSION_S))

    async def _log_out(self, request: Request) -> Response:
        self._logins.log_out(cookie_of(request.headers) or "")
        return self._with_cookie(_reply(session_document(None, True)), "", 0)

    def _with_cookie(self, reply: Response, value: str, max_age_s: int) -> Response:
        reply.set_cookie(
            COOKIE, value, max_age=max_age_s, secure=self._logins.rules.has_tls, httponly=True, samesite="strict"
        )
        return reply


def session_document(caller: Caller | None, login: bool) -> Session:
    """Return who a caller is, and what the page offers; `login` is whether there is one to log in by."""
    user, may_act, csrf = (None, False, None) if caller is None else (caller.user, caller.may_act, caller.csrf)
    return {"user": user, "may_act": may_act, "csrf": csrf, "login": login, "collectives": list(OFFERED_KINDS)}


def _reply(document: Session) -> Response:
    return Response(json_text(document), headers={"cache-control": "no-store"}, media_type=MEDIA_TYPE)
