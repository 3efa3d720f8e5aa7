"""Several models that remember different stretches of the past, and a rule that says which of them acts."""
