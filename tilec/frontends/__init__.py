"""One package per kernel language, behind one protocol."""
