"""The balancer's tables of one generation."""
