"""Who may read and act: the Host header, the login, the token of actions."""
