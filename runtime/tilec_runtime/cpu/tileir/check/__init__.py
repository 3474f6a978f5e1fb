"""A checker for data races, out-of-bounds accesses and broken assumptions of tile kernels."""
