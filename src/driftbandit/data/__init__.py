"""What `driftbandit data` does: find, check and convert a copy of a data set, fetch one, or make one up."""
