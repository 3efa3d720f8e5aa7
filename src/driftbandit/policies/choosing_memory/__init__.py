"""Several models that remember different stretches of the past, and a rule that decides which one acts."""
