/* Tensors of tilec's own: base types of plain fields, which Python's classes derive from, and what a launch asks of them. */
#ifndef TILEC_TENSOR_H
#define TILEC_TENSOR_H

#include "array.h"
#include "call.h"

/* Make the types and add them to the module. */
bool tensor_types(PyObject *module, struct core *core);

/* Read the facts of a tensor of the described type; extents and strides go into `room`. */
enum outcome tensor_read(struct core *core, PyObject *value, int64_t *room, size_t count, struct facts *facts);

/* Whether a tensor is usable and unclaimed, and writable where it is to be written. */
bool tensor_is_free(const struct core *core, PyObject *value, bool write);

/* Whether a use on a line waits for nothing on other lines. */
bool tensor_is_in_order(const struct core *core, PyObject *value, bool write, PyObject *line);

/* Remember a use on a line, which was enqueued. False with an exception. */
bool tensor_note(PyObject *value, bool write, PyObject *line);

/* The line of a stream out of {handle: line}, a new reference; NULL where there is none, or with an exception. */
PyObject *line_find(const struct core *core, PyObject *lines, const struct stream *stream);

#endif
