"""The controller's side of probing: attached agents, the budgets of switches, port searches, checks and samples."""
