"""Limits of a bundle, which readers and writers enforce.

A bundle is not trusted. The limits bound the cost of reading one: 64 MiB of memory plus the
largest image that the index declares, time linear in the size of the file, and 1 s for the index.
The writer enforces them so that every published bundle can be read. For scale: tilec's examples
have 97 kernels, 700 images and an index of 0.4 MiB.
"""

from __future__ import annotations

# The file.
FILE = (1 << 32) - 2  # bytes; zip counts in 32 bits without its extensions
MEMBERS = 20_000  # each costs the reader about 300 bytes, before it reads the index
# Bytes that one packed byte may inflate to. Cubins, PTX and indexes reach 5 to 30, deflate 1032.
RATIO = 100
IMAGE = 1 << 30  # bytes; the largest cubins have about 100 MiB, nearly all of it tables

# The index.
# Bytes, enough for about 8,900 images. Its values take up to 8 times as much memory, and 0.5 s to
# read.
INDEX = 4 << 20
# Arrays, objects and items. The smallest of them takes 60 times its text in memory.
INDEX_VALUES = 400_000
IMAGES = MEMBERS - 1  # images of all variants; several may share bytes
KERNELS = 4_000
SOURCES = 20_000
TOOLS = 1_000

# A kernel.
PARAMS = 512  # a launch compares each output with every other tensor
SLOTS = 4_096  # arguments of an entry point
ARGUMENTS = 32_764  # bytes of all arguments, and so of one struct; the limit of CUDA
SLOT_ALIGNMENT = 1_024  # bytes, a power of two; tensor maps have 64
AXES = 64
AXIS_VALUES = 10_000
RANK = 64  # dimensions of a tensor, as in NumPy and DLPack; kernels use fewer
ALIGNMENT = 1 << 20  # bytes, a power of two; the manifest has the same limit
REQUIRES = 1_000
HINTS = 100
RULES = 64  # the manifest has the same limit
EXPRESSION = 1_000  # characters of one expression; the parser has the same limit
# Characters of all expressions of a kernel, plus EXPRESSION_COST for each expression. The first
# launch parses them, in at most 0.3 s.
EXPRESSIONS = 100_000
EXPRESSION_COST = 30

# Numbers.
INT = (1 << 63) - 1
DIM = (1 << 31) - 1  # blocks or threads in one dimension
BYTES = 1 << 40  # any resource of an image in bytes
TEXT = 1 << 18  # characters of documentation
LINE = 10_000  # characters of a name, an id or a symbol; mangled C++ names are long
