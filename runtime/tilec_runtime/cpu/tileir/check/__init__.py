"""A checker for races, out-of-bounds accesses and false assumptions of kernels."""
