"""Products of context and arm columns: where each goes, and the loop that fills them in."""
