"""Access to the page over HTTP: checks of the Host header, the login, and the token of actions."""
