/* Encodes numbers as bytes of kernel arguments. Formats are characters of Python's struct module. */
#ifndef TILEC_SCALAR_H
#define TILEC_SCALAR_H

#include "core.h"

/* The bytes of a format that C encodes, or 0 for any other format. */
size_t scalar_size(char format);

/* Encode an integer. Returns false if it does not fit. */
bool scalar_encode(char format, int64_t value, unsigned char *target);

/* Encode an argument of a call as `format` (one character, or a format of Python's encoder) in `size` bytes. */
enum outcome value_encode(const struct core *core, PyObject *format, PyObject *value, unsigned char *target, size_t size);

#endif
