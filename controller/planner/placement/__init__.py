"""Suggest NICs for a job: find what is free, choose hosts and leaves, and predict the utilisation of each choice."""
