"""`heddle check cabling`: compare what ports hear with the fabric file."""
