"""`heddle demo`: an emulated fabric under real traffic, side by side under ECMP, E-ECMP and planned paths."""
