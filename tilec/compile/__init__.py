"""Execution of compile jobs: worker processes, cache of images, progress events."""
