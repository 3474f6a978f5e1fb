"""Doubles and contract suites that ship with the product."""
