"""The contract between the two halves: one file of images and their index."""
