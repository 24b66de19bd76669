"""Refuse replies of another etcd, and of one whose history has gone back: a member may be replaced at any moment."""

from typing import Any

from heddle.controller.store.etcd.proto import etcd_pb2 as pb


class Guard:
    """The cluster that replies have to be of, and the highest revision that one of them had."""

    def __init__(self, cluster: int, revision: int) -> None:
        self.cluster, self.revision = cluster, revision

    def floor(self, request: Any) -> int:
        """Return the revision below which the reply to a request that is sent now may not be.

        Ranges and transactions are linearizable: they see what was replied before. Other calls may not.
        """
        return self.revision if isinstance(request, pb.RangeRequest | pb.TxnRequest) else 0

    def why_foreign(self, header: pb.ResponseHeader, floor: int) -> str:
        """Return why a reply is not of our etcd, empty where it is; its revision is remembered then."""
        if header.cluster_id != self.cluster:
            return f"it is of etcd cluster {header.cluster_id:x}, the journal is in {self.cluster:x}"
        if header.revision < floor:
            return f"its history ends at revision {header.revision}, {floor} was seen: an older copy, or a new etcd"
        self.revision = max(self.revision, header.revision)
        return ""
