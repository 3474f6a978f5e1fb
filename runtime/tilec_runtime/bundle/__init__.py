"""The bundle, the contract between both halves: one file of images and an index."""
