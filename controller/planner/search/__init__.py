"""Search for paths where no exact method applies: mixed demands, failures, residual load, drawn fabrics."""
