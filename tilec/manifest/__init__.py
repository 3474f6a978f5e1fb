"""Read tilec.toml to frozen values, with located errors and a JSON Schema."""
