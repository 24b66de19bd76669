"""`heddle check fabric`: probe a fabric that hashes, and say for each leaf if source ports can steer it."""
