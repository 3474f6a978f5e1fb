"""Tensors: device memory with a shape, and who may use it."""
