"""DriftUCB in compiled code: `drift` holds the order of events in one reward, and its docstring names the parts."""
