"""Around the data process: snapshot in, acknowledgement and counters out; the slow path; the pair."""
