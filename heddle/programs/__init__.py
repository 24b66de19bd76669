"""What a person or systemd starts: command lines above the libraries. No library imports a program."""
