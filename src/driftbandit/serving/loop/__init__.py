"""What a loop is and does: commands in, events out. No input or output."""
