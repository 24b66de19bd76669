"""The queues of the lab's switch ports: eight priorities, ECN marks, pauses, and every byte counted."""
