"""What one end of the socket between a gateway's processes says is heard, also when it ends in the same moment."""

from dataplane.control import messages
from dataplane.control.messages import Failed


def test_a_reason_is_heard_from_an_end_that_closed_with_a_message_unread():
    ours, theirs = messages.pair()
    with ours:
        with theirs:
            messages.send(ours, "never read")
            messages.send(theirs, Failed(reason="no such device"))
        assert messages.receive(ours) == (Failed(reason="no such device"), [])
        assert messages.receive(ours) == (None, [])
