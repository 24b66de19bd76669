"""Messages between a gateway's two processes arrive even if the sender ends at once."""

from heddle.dataplane.control.process import messages
from heddle.dataplane.control.process.messages import Failed


def test_a_message_arrives_from_an_end_that_closed_with_a_message_unread():
    ours, theirs = messages.pair()
    with ours:
        with theirs:
            messages.send(ours, "never read")
            messages.send(theirs, Failed(reason="no such device"))
        assert messages.receive(ours) == (Failed(reason="no such device"), [])
        assert messages.receive(ours) == (None, [])
