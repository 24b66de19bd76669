"""What is on a lab's wire: RoCEv2 and pause frames, the raw sockets that carry them, the rate of a link."""
