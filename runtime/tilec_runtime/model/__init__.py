"""Value types that both halves share; they import the standard library only."""
