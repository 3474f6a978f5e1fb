"""tilec.toml: text to frozen values, with located errors and a JSON Schema."""
