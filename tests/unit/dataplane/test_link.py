"""What one end of the socket between a gateway's processes says is heard, also when it ends in the same moment."""

from dataplane.control import link
from dataplane.control.link import Failed


def test_a_reason_is_heard_from_an_end_that_closed_with_a_message_unread():
    ours, theirs = link.pair()
    with ours:
        with theirs:
            link.send(ours, "never read")
            link.send(theirs, Failed(reason="no such device"))
        assert link.receive(ours) == (Failed(reason="no such device"), [])
        assert link.receive(ours) == (None, [])
