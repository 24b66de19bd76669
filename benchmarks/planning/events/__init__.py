"""Jobs that come and go and links that fail: sessions beside full plans."""
