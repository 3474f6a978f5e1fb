"""A corpus of kernels that together use every operation of Tile IR that cuTile Python can say, on
every dtype and some shapes.
"""
