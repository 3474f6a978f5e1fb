"""Measures launches: samples, medians with intervals, rates; nothing here prints."""
