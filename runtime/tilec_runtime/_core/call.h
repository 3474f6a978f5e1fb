/* One call of a launcher, as plans read it: its key, and its slots, the inputs of programs. */
#ifndef TILEC_CALL_H
#define TILEC_CALL_H

#include "core.h"
#include "expr.h"

/* The parameters of a launcher that are tensors, and the others that decide a launch by their value (`keyed`). */
struct signature {
    size_t parameters, tensor_count, other_count;
    uint16_t tensors[MOST_TENSORS], others[MOST_KEY];
    bool keyed[MOST_KEY]; /* of each of `others` */
};

struct call {
    PyObject *const *values; /* the caller's, in parameter order */
    size_t slot_count, key_count;
    bool any_owned, owned[MOST_TENSORS]; /* whether a tensor is tilec's own, and its lease is checked */
    uint16_t tensor_slots[MOST_TENSORS]; /* the slot of each tensor's address */
    int64_t numbers[MOST_NUMBERS]; /* the slots, then room for programs */
    uint64_t key[MOST_KEY];
};

/* Read a signature from Python: sequences of places. */
bool signature_read(struct signature *signature, Py_ssize_t parameters, PyObject *tensors, PyObject *others, PyObject *keyed);

/* The stream of a launch. `number` is the handle as a Python int, an owned reference, or NULL. */
struct stream {
    CUstream handle;
    PyObject *number;
};

/* Read a call of all parameters. Types in the key are borrowed from the values. `fallback` is Python's reader of arrays. `given` has the
 * facts that Python has read, one per tensor; NULL to read them. */
enum outcome call_read(struct core *core, const struct signature *signature, PyObject *const *values, PyObject *fallback,
    PyObject *const *given, struct call *call);

/* Find the handle of a stream. May run Python. */
enum outcome stream_handle(struct core *core, PyObject *object, struct stream *stream);

/* Find the stream of a call without one: the current stream of the first array whose library has one. May run Python. */
enum outcome call_stream(struct core *core, const struct signature *signature, const struct call *call, struct stream *stream);

#endif
