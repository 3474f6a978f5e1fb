"""Runs jobs: worker processes, content-addressed cache, progress events."""
