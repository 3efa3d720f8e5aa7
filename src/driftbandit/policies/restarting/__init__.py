"""One model and a test: when the test fires, the model starts afresh."""
