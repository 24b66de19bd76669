"""What every part of the planner stands on: a fabric, flows, paths and loads as arrays, and the kernels' compiler."""
