"""What `driftbandit data` does: find a copy of a data set, check it, convert it; fetch it, or make one up."""
