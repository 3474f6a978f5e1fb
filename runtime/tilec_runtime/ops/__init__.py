"""Device operations: lazy device work, combinators, and ways to run it."""
