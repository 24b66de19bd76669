"""Report the queue pairs that exist to the controller, one `ReportFlows` stream per host, as host agents do.

with FlowReporter(channel) as reporter:
lab.run_flows(requests, 20, on_progress=lambda _seconds: reporter.report(lab.observed_flows()))
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple

import grpc

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

END_TIMEOUT_S = 5.0


class _Stream(NamedTuple):
    messages: SimpleQueue[pb.ObservedFlows | None]
    call: Any


class FlowReporter:
    """The streams of all hosts; one that breaks is opened again with the next report."""

    def __init__(self, channel: grpc.Channel) -> None:
        """Use an open channel."""
        self._jobs = rpc.JobServiceStub(channel)
        self._streams: dict[str, _Stream] = {}

    def __enter__(self) -> "FlowReporter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the streams."""
        for stream in self._streams.values():
            stream.messages.put(None)
            stream.call.cancel()

    def report(self, observed: Mapping[str, pb.ObservedFlows]) -> None:
        """Send the message of each host; skip a host whose last one still waits for the network."""
        for host, message in observed.items():
            stream = self._streams.get(host)
            if stream is not None and stream.call.done():
                stream.messages.put(None)  # ends the thread that reads them
            if stream is None or stream.call.done():
                stream = self._streams[host] = self._open()
            if stream.messages.empty():
                stream.messages.put(message)

    def end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Report that no host has queue pairs any more, and end the streams once the controller has read it.

        It is given up after `timeout_s`; without this, the controller takes flows of a run that has ended as present.
        """
        deadline = time.monotonic() + timeout_s
        for host, stream in self._streams.items():
            stream.messages.put(pb.ObservedFlows(host=host))
            stream.messages.put(None)
        for stream in self._streams.values():
            with suppress(grpc.RpcError, grpc.FutureTimeoutError, grpc.FutureCancelledError):
                stream.call.result(timeout=max(0.0, deadline - time.monotonic()))
        self._streams.clear()

    def _open(self) -> _Stream:
        messages: SimpleQueue[pb.ObservedFlows | None] = SimpleQueue()
        return _Stream(messages, self._jobs.ReportFlows.future(iter(messages.get, None), wait_for_ready=True))
