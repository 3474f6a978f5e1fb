/* Numbers as the bytes of a kernel argument. Formats are characters of Python's struct module. */
#ifndef TILEC_SCALAR_H
#define TILEC_SCALAR_H

#include "core.h"

/* Bytes of a format that C encodes; 0 for all others. */
size_t scalar_size(char format);

/* Encode an integer; false where it does not fit. */
bool scalar_encode(char format, int64_t value, unsigned char *target);

/* Encode an argument of a call as `format` (one character, or text that Python's encoder knows) in `size` bytes. */
enum outcome value_encode(const struct core *core, PyObject *format, PyObject *value, unsigned char *target, size_t size);

#endif
