"""Keep the pairs that hosts report of a job's connections, in memory: hosts report them again to another controller."""

from collections.abc import Collection, Mapping

from heddle.controller.model.admission import quoted
from heddle.controller.model.error import BudgetExceededError, InputError
from heddle.controller.model.fabric import Nic
from heddle.v1 import heddle_pb2 as pb

MAX_PAIRS = 32_768
"""Of a job: so many fit a message."""
MAX_ALL_PAIRS = 1_048_576
"""Of all jobs; beyond, a report is refused."""
MAX_SENDS_LENGTH = 256
Pairs = dict[tuple[str, str], int]


class ConnectedPairs:
    """The newest report of each host of each job. Only work in the thread (`in_worker`) may use it."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, Pairs]] = {}
        self._sends: dict[str, dict[str, str]] = {}

    def report(self, message: pb.JobPairs, nics: Mapping[str, Nic], jobs: Collection[str]) -> None:
        """Take a host's report in the place of its former one; raises InputError, BudgetExceededError.

        What was reported of jobs that have ended, which are those that `jobs` lacks, is forgotten. Of a host without
        pairs nothing is kept.
        """
        pairs = _pairs(message, nics)
        if len(message.sends) > MAX_SENDS_LENGTH or not (message.sends or " ").isprintable():
            raise InputError(f"sends: must be at most {MAX_SENDS_LENGTH} printable characters")
        if message.sends and all(nic.host != message.host for nic in nics.values()):
            raise InputError(f"host: {quoted(message.host)} has no NIC of the fabric")
        for kept in (self._jobs, self._sends):
            for ended in [job for job in kept if job not in jobs]:
                del kept[ended]
        hosts = self._jobs.get(message.job_id, {})
        more = len(pairs) - len(hosts.get(message.host, ()))
        if sum(map(len, hosts.values())) + more > MAX_PAIRS or self._count() + more > MAX_ALL_PAIRS:
            raise BudgetExceededError(
                f"{message.job_id}: more than {MAX_PAIRS:,} pairs, or {MAX_ALL_PAIRS:,} of all jobs"
            )
        if pairs:
            self._jobs.setdefault(message.job_id, hosts)[message.host] = pairs
        else:
            hosts.pop(message.host, None)
        if message.sends:
            self._sends.setdefault(message.job_id, {})[message.host] = message.sends
        else:
            self._sends.get(message.job_id, {}).pop(message.host, None)

    def pairs(self, job_id: str) -> bytes:
        """Return the pairs of a job, a JobPairs; of hosts that say what it sends, the first by name counts."""
        rows = [
            pb.ConnectedPair(src_nic=src, dst_nic=dst, queue_pairs=count)
            for pairs in self._jobs.get(job_id, {}).values()
            for (src, dst), count in pairs.items()
        ]
        said = self._sends.get(job_id)
        return pb.JobPairs(job_id=job_id, pairs=rows, sends=said[min(said)] if said else "").SerializeToString()

    def _count(self) -> int:
        return sum(len(pairs) for hosts in self._jobs.values() for pairs in hosts.values())


def _pairs(message: pb.JobPairs, nics: Mapping[str, Nic]) -> Pairs:
    """Return the pairs of a report; raises InputError for what is no pair of NICs of the fabric, from its host.

    Ports of a NIC count as the NIC, with the queue pairs of the port that has the most: each plane has as many.
    """
    if len(message.pairs) > MAX_PAIRS:
        raise InputError(f"pairs: {len(message.pairs):,}; at most {MAX_PAIRS:,} are kept of a job")
    found: Pairs = {}
    for index, pair in enumerate(message.pairs):
        src, dst = nics.get(pair.src_nic), nics.get(pair.dst_nic)
        if src is None or dst is None or src.host != message.host:
            named = f"{quoted(pair.src_nic)} to {quoted(pair.dst_nic)}"
            raise InputError(f"pairs[{index}]: {named} is no pair of NICs from host {quoted(message.host)}")
        ranks = src.rank, dst.rank
        found[ranks] = max(found.get(ranks, 0), pair.queue_pairs)
    return found
