"""Read and compile C++ text."""
