"""Jobs that come and go and links that fail: the planner of the service beside full plans."""
