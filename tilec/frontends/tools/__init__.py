"""What the frontends share."""
