"""Pages of runs on localhost, live while the runs go on."""
