"""Map the ids of published jobs to their tenants: events and reasons name jobs after they have ended."""

from collections import OrderedDict

from heddle.controller.model.plan import JobPlan

MAX_JOBS = 65_536
SEVERAL = ""
"""The owner of an id that several tenants have used, or no tenant."""


class Owners:
    """The tenants of the newest MAX_JOBS jobs, by id."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, str] = OrderedDict()

    def announced(self, plan: JobPlan) -> None:
        """Record a generation of a job."""
        known = self._tenants.get(plan.job_id, plan.tenant)
        self._tenants[plan.job_id] = plan.tenant if plan.tenant == known else SEVERAL
        self._tenants.move_to_end(plan.job_id)
        if len(self._tenants) > MAX_JOBS:
            self._tenants.popitem(last=False)

    def owner(self, job_id: str) -> str | None:
        """Return the tenant of a job; SEVERAL where the id was used by several, None where it is not known."""
        return self._tenants.get(job_id)
