"""Actions of the page: drain and return, release a job, preview a job. They go through the same inbox as the gRPC API.

Each but a preview is in the event log and the audit trail, with the caller's name and the outcome.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from heddle.controller.access.audit import OK, Audit, Entry
from heddle.controller.brain.state import State
from heddle.controller.dashboard.access.login import Caller
from heddle.controller.dashboard.body import body_of
from heddle.controller.dashboard.documents.jobs import preview_document
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.requests import Done, DrainRequest, PreviewRequest, ReleaseRequest
from heddle.controller.dashboard.documents.text import document_text
from heddle.controller.dashboard.http import NO_STORE, connection_of
from heddle.controller.dashboard.routes import MEDIA_TYPE, Renderer, refused
from heddle.controller.dashboard.sources import Sources
from heddle.controller.model.admission import problems, quoted
from heddle.controller.model.effect import Drained, Note
from heddle.controller.model.error import DeniedError, HeddleError, InputError, NotFoundError, UnavailableError
from heddle.controller.model.event import Drain, Release, Submit
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.plan import JobPlan

Handler = Callable[[Request], Awaitable[Mapping[str, object]]]
ReadJobs = Callable[[str, Fabric], tuple[JobRequest, ...]]
TIMEOUT_S = 60.0
"""An action that takes longer goes on; its caller gets 503."""
PREVIEW_ID = "what-if"


class Actions:
    """The actions on one control loop; `read_jobs` reads the text of a jobs file."""

    def __init__(self, sources: Sources, renderer: Renderer, read_jobs: ReadJobs, audit: Audit) -> None:
        self._sources, self._loop = sources, sources.loop
        self._renderer, self._read_jobs, self._audit = renderer, read_jobs, audit

    def routes(self) -> list[Route]:
        """Return the routes."""
        handlers = {"drain": self._drain, "release": self._release, "preview": self._preview}
        return [
            Route(f"/api/actions/{name}", partial(self._answered, handler), methods=["POST"])
            for name, handler in handlers.items()
        ]

    async def _drain(self, request: Request) -> Mapping[str, object]:
        wanted = await body_of(request, DrainRequest)
        target, undrain, is_dry = wanted["target"], wanted.get("undrain", False), wanted.get("dry_run", False)
        what = "return to use" if undrain else "drain"
        with self._taken(request) if is_dry else self._audited(request, target, what):
            done = await self._loop.request(
                lambda reply: Drain(reply=reply, target=target, undrain=undrain, dry_run=is_dry)
            )
        if not isinstance(done, Drained):
            raise HeddleError("the reply to a drain is of another kind")
        text = _drain_text(target, done, is_dry)
        return {"dry_run": is_dry, "moves": done.flows_moved, "jobs": list(done.jobs), "text": text}

    async def _release(self, request: Request) -> Mapping[str, object]:
        wanted = await body_of(request, ReleaseRequest)
        job_id, is_dry = wanted["job"], wanted.get("dry_run", False)
        if is_dry:
            return {**_release_plan(self._loop.state, job_id)}
        with self._audited(request, job_id, "release"):
            released = await self._loop.request(lambda reply: Release(reply=reply, job_id=job_id))
        flows = released if isinstance(released, int) else 0
        return {"dry_run": False, "moves": flows, "jobs": [job_id], "text": f"{job_id}: released, {flows} flows"}

    async def _preview(self, request: Request) -> Mapping[str, object]:
        wanted = await body_of(request, PreviewRequest)
        job = await self._renderer.run(_job_of, wanted, self._loop.state.fabric, self._read_jobs)
        with self._taken(request):
            plan = await self._loop.request(lambda reply: Submit(reply=reply, request=job, preview=True, checked=True))
        if not isinstance(plan, JobPlan):
            raise HeddleError("the reply to a preview is no plan")
        return await self._renderer.run(preview_document, Moment.of(self._sources), plan)

    def _taken(self, request: Request) -> AbstractContextManager[None]:
        """Count one more plan in progress that changes nothing; refuses those past the caller's limit."""
        return self._sources.previews.taken(f"http {request.client.host if request.client is not None else ''}")

    @contextmanager
    def _audited(self, request: Request, subject: str, what: str) -> Iterator[None]:
        """Record an action with its caller and outcome."""
        subject = quoted(subject)[1:-1]
        name, where = _who(request)
        self._sources.feeds.note(
            Note(severity="info", subject=subject, text=f"{what}: requested over HTTP by {name} ({where})")
        )
        outcome, why = OK, ""
        try:
            yield
        except HeddleError as error:
            outcome, why = type(error).__name__.removesuffix("Error"), quoted(str(error))[1:-1]
            raise
        except BaseException:
            outcome, why = "CANCELLED", "the caller left"
            raise
        finally:
            self._record(request, what, subject, outcome, why)

    def _record(self, request: Request, what: str, subject: str, outcome: str, why: str) -> None:
        name, where = _who(request)
        self._audit.record(Entry(f"user:{name}", f"http:{where}", f"http/{what}", subject, outcome, why))

    async def _answered(self, handler: Handler, request: Request) -> Response:
        """Return the reply of an action as JSON. Its connection lasts as long as the action."""
        connection_of(request).keep_open()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._refuse_readers(request)
                found = await handler(request)
        except TimeoutError:
            text = f"no reply within {TIMEOUT_S:.0f} s; the timeline says what becomes of it"
            return refused(UnavailableError(text))
        except HeddleError as error:
            return refused(error)
        text = await asyncio.to_thread(document_text, found)
        return Response(text, headers=NO_STORE, media_type=MEDIA_TYPE)

    def _refuse_readers(self, request: Request) -> None:
        """Raise DeniedError for a user who may only read."""
        caller: Caller | None = request.scope["state"]["caller"]
        if caller is None or caller.may_act:
            return
        why = f"user {_who(request)[0]} may read only; actions are for operators"
        self._record(request, request.url.path.rpartition("/")[2], "", "Denied", why)
        raise DeniedError(why)


def _who(request: Request) -> tuple[str, str]:
    """Return the name and the address of a caller."""
    caller: Caller | None = request.scope["state"]["caller"]
    name = caller.user if caller is not None and caller.user is not None else "a caller"
    return name, request.client.host if request.client is not None else "?"


def _drain_text(target: str, done: Drained, is_dry: bool) -> str:
    flows = f"{done.flows_moved} flows of {len(done.jobs)} jobs"
    if done.undrain:
        return f"{target} returns to use: {flows} move to it" if is_dry else f"{target}: returned to use, {flows} moved"
    return f"{target} leaves use: {flows} move to other paths" if is_dry else f"{target}: drained, {flows} moved"


def _release_plan(state: State, job_id: str) -> Done:
    job = state.jobs.get(job_id)
    if job is None:
        raise NotFoundError(f"there is no job {quoted(job_id)}")
    flows = len(job.flows.flows)
    text = f"{job_id} ends: its {flows} flows lose their planned paths; those that go on are spread by the underlay"
    return {"dry_run": True, "moves": flows, "jobs": [job_id], "text": text}


def _job_of(wanted: PreviewRequest, fabric: Fabric, read_jobs: ReadJobs) -> JobRequest:
    """Return the job that a preview is for; raises InputError."""
    if ("jobs" in wanted) == ("ranks" in wanted):
        raise InputError("name either `jobs` (the text of a jobs file) or `ranks` and `collective`")
    if "jobs" in wanted:
        if wanted.keys() != {"jobs"}:
            raise InputError("`jobs` has no fields beside it")
        found = read_jobs(wanted["jobs"], fabric)
        if len(found) != 1:
            raise InputError(f"jobs: {len(found)} jobs; one is previewed at a time")
        return found[0]
    name = wanted.get("collective", "")
    if name not in CollectiveKind.__members__:
        raise InputError(f"collective: {quoted(name)} is none of {', '.join(CollectiveKind.__members__)}")
    collective = Collective(kind=CollectiveKind[name], size_bytes=wanted.get("size_bytes", 0))
    request = JobRequest(job_id=PREVIEW_ID, ranks=tuple(wanted["ranks"]), collectives=(collective,))
    if found_problems := problems(request, fabric):
        raise InputError(*(f"{problem.path}: {problem.text}" for problem in found_problems))
    return request
