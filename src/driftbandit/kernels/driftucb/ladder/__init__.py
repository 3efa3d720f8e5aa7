"""DriftUCB's ladder of young models, which raise the alarm: their births, what they learn, and what waits for them."""
