"""Kinds of columns: how one named value becomes numbers."""
