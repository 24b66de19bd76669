"""Routers that hash a fabric file's traffic, and agents that probe them."""
