"""Tensors: device memory with a shape, an owner and leases."""
