"""Cases: inputs, launches and comparisons with references; nothing here prints."""
