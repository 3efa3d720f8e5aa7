"""The arena: every policy in every kind of changing world, on identical rounds."""
