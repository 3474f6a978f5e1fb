"""Execution of compile jobs: worker processes, content-addressed cache, progress events."""
