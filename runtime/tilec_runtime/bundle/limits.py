"""Limits of a bundle: the most that a reader accepts of whatever a file may declare.

A bundle may come from anywhere. These numbers bound what its reader spends before anything is
trusted: at most 64 MiB of memory plus the largest image that the index declares, time linear in the
size of the file, and 1 s for the index. A writer obeys them too, so that nothing is published that
no reader takes. For scale: tilec's examples have 97 kernels, 700 images and an index of 0.4 MiB.
"""

from __future__ import annotations

# The file.
FILE = (1 << 32) - 2  # bytes; zip counts in 32 bits without its extensions
MEMBERS = 20_000  # each costs the reader some 300 bytes, before the index is read
RATIO = 100  # bytes that one packed byte may inflate to; cubins, PTX and indexes reach 5 to 30, deflate alone allows 1032
IMAGE = 1 << 30  # bytes; the largest cubins have some 100 MiB, nearly all of it tables

# The index.
INDEX = (
    4 << 20
)  # bytes; its values take up to 8 times as much memory, and 0.5 s to read. Room for some 8,900 images.
INDEX_VALUES = (
    400_000  # arrays, objects and items; the smallest of them takes 60 times its text in memory
)
IMAGES = MEMBERS - 1  # rows, which may share bytes
KERNELS = 4_000
SOURCES = 20_000
TOOLS = 1_000

# A kernel.
PARAMS = 512  # a launch compares each output with each other tensor
SLOTS = 4_096  # arguments of an entry point
ARGUMENTS = 32_764  # bytes of all of them, and so of a struct: CUDA allows no more
SLOT_ALIGNMENT = 1_024  # bytes, a power of two; tensor maps have 64
AXES = 64
AXIS_VALUES = 10_000
RANK = (
    64  # dimensions of a tensor, as in NumPy and DLPack; CUDA's and tile kernels' arrays have fewer
)
ALIGNMENT = 1 << 20  # bytes, a power of two; as in the manifest
REQUIRES = 1_000
HINTS = 100
RULES = 64  # as in the manifest
EXPRESSION = 1_000  # characters of one expression, as in the parser, which also bounds its depth and its parts
# Characters of all expressions of a kernel, with EXPRESSION_COST more for each: the first launch
# parses them, in 0.3 s at most.
EXPRESSIONS = 100_000
EXPRESSION_COST = 30

# Numbers.
INT = (1 << 63) - 1
DIM = (1 << 31) - 1  # blocks or threads in one dimension
BYTES = 1 << 40  # resources of an image that are counted in bytes
TEXT = 1 << 18  # characters of documentation
LINE = 10_000  # characters of a name, an id or a symbol; C++ mangles long ones
