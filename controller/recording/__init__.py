"""Record what the control loop was given and what it decided, and decide it again (`heddle replay`)."""
