"""To which connection a packet belongs, and what it changes there."""
