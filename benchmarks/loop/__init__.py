"""The closed loop of a running controller: failures, admission, toggling ports, and previews beside them."""
