"""The command line: one file per command; the only code that prints."""
