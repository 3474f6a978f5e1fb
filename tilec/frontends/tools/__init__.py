"""Tools shared by the frontends."""
