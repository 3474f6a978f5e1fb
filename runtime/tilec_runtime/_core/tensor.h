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

/* Whether a tensor was neither moved nor given up. */
bool tensor_is_usable(PyObject *value);

/* Claim an owned tensor for an op into which it moves, or a shared one for reading, under a number. Declined, with nothing claimed, for
 * borrows, for a tensor that has a claim of this number, and where the tensor cannot be used so now. */
enum outcome tensor_claim(struct core *core, PyObject *value, bool write, PyObject *number, PyObject *reads, PyObject *moves);

/* End a claim; one that has ended is left alone. False with an exception. */
bool tensor_release(const struct core *core, PyObject *value, PyObject *number);

/* Whether a use on a line waits for nothing on other lines. */
bool tensor_is_in_order(const struct core *core, PyObject *value, bool write, PyObject *line);

/* Whether memory is unclaimed, and a use of it that lasts on a line is noted, behind which nothing else is. */
bool uses_last(const struct core *core, PyObject *lease, PyObject *uses, bool write, PyObject *line);

/* Remember a use on a line, which was enqueued. False with an exception. */
bool tensor_note(PyObject *value, bool write, PyObject *line);

/* The line of a stream out of {handle: line}, a new reference; NULL where there is none, or with an exception. */
PyObject *line_find(const struct core *core, PyObject *lines, const struct stream *stream);

#endif
