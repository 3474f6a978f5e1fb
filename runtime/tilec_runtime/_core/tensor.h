/* Tilec's own tensors: types of plain fields, which are bases of Python's classes, and the checks of a launch. */
#ifndef TILEC_TENSOR_H
#define TILEC_TENSOR_H

#include "array.h"
#include "call.h"

/* Make the types and add them to the module. */
bool tensor_types(PyObject *module, struct core *core);

/* Read the facts of a tensor of the described type; write extents and strides to `room`. */
enum outcome tensor_read(struct core *core, PyObject *value, int64_t *room, size_t count, struct facts *facts);

/* Whether a tensor is usable, has no conflicting claim and, for a write, is not read-only. */
bool tensor_is_free(const struct core *core, PyObject *value, bool write);

/* Whether a tensor was neither moved nor dropped. */
bool tensor_is_usable(PyObject *value);

/* Claim an owned tensor for an op into which it moves, or a shared one for reading, under a number. Returns DECLINED, with
 * nothing claimed, for a borrow, for a tensor that has a claim of this number, and for a conflict. */
enum outcome tensor_claim(struct core *core, PyObject *value, bool write, PyObject *number, PyObject *reads, PyObject *moves);

/* End a claim, unless it has ended. Returns false with an exception. */
bool tensor_release(const struct core *core, PyObject *value, PyObject *number);

/* Whether a use on a line needs no wait for other lines. */
bool tensor_is_in_order(const struct core *core, PyObject *value, bool write, PyObject *line);

/* Whether memory is unclaimed, and its last use is a lasting use on this line. */
bool uses_last(const struct core *core, PyObject *lease, PyObject *uses, bool write, PyObject *line);

/* Record a use on a line, which was enqueued. Returns false with an exception. */
bool tensor_note(PyObject *value, bool write, PyObject *line);

/* Look up the line of a stream in {handle: line}. Returns a new reference, or NULL on a miss or with an exception. */
PyObject *line_find(const struct core *core, PyObject *lines, const struct stream *stream);

#endif
