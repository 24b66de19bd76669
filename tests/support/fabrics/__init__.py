"""Fabrics, jobs and rules that tests draw."""
