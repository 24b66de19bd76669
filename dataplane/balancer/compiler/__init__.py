"""Configuration to tables: services, back ends and their slots."""
