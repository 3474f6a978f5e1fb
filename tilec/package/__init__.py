"""Bundle to typed Python package: view model, then text."""
