"""Says who can reach whom by the tables that a gateway holds, and holds that against what was wanted."""
