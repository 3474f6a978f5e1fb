"""One file per kernel language, behind one protocol."""
