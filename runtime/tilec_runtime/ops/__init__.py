"""Device operations: lazy descriptions of device work, their combinators, and ways to run them."""
