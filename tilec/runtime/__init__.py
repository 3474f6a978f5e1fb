"""The shipped half: loads bundles and launches their kernels."""
