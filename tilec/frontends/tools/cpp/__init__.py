"""Reading and compiling C++ text."""
