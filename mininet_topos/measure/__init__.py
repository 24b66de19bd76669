"""Run flows on a lab's NICs and count every packet: runner, capture, receive ring."""
