"""LinUCB that forgets: all the time, beyond a window, or at fixed intervals."""
