"""Turn the counters of a demo run into results per flow, link and run, and decide whether the run is valid."""
