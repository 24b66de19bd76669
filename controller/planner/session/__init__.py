"""Plans kept up to date event by event; `controller.planner.session.session.Session` is the one entry."""
