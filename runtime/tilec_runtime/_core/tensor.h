/* Tensors of tilec's own: base types of plain fields, which Python's classes derive from, and what a launch asks of them. */
#ifndef TILEC_TENSOR_H
#define TILEC_TENSOR_H

#include "array.h"

/* Make the types and add them to the module. */
bool tensor_types(PyObject *module, struct core *core);

/* Read a tensor's facts; extents and strides go into `room`. Anything else is declined. */
enum outcome tensor_read(struct core *core, PyObject *value, int64_t *room, size_t count, struct facts *facts);

/* Whether a tensor can be used on a stream as it is: usable, unclaimed, and its memory was last used there in a way that orders the use.
 * Such a use changes nothing that is noted, but for the count of uses. */
bool tensor_is_ready(struct core *core, PyObject *value, bool write, CUstream stream);

/* Count a use of a tensor that is ready. */
void tensor_note(PyObject *value);

#endif
