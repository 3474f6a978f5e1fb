"""Plain-data reports about bundles and images."""
