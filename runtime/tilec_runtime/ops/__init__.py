"""Device operations: lazy descriptions of work for a device, how they are combined, and what runs
them.
"""
