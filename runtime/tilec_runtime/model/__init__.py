"""Shared vocabulary of both halves: values only, standard library only."""
