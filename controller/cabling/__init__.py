"""Compare the cabling that ports hear with the fabric as built, and name the causes of what differs. Pure."""
