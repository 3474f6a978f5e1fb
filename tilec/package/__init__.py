"""Outputs of a build: bundle, typed Python package, wheel and documents."""
