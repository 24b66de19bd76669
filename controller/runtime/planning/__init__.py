"""Run the planner in processes of its own, so that no solve blocks the control loop or outlives its use."""
