"""`heddle demo`: run the same traffic on an emulated fabric under ECMP, E-ECMP and planned paths, and compare them."""
