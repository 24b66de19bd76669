"""`heddle telemetry …` and `heddle top`: record, replay and show the telemetry stream."""
