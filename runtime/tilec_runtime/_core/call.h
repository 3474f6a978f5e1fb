/* One call of a launcher as plans see it: its key (the class facts) and its slots (what programs compute with). */
#ifndef TILEC_CALL_H
#define TILEC_CALL_H

#include "core.h"
#include "expr.h"

/* Which of a launcher's parameters are tensors, and which of the others decide a launch by their value. */
struct signature {
    size_t parameters, tensor_count, other_count;
    uint16_t tensors[MOST_TENSORS], others[MOST_KEY];
    bool keyed[MOST_KEY]; /* of each of `others` */
};

struct call {
    PyObject *const *values; /* the caller's, in parameter order */
    size_t slot_count, key_count;
    bool any_owned, owned[MOST_TENSORS]; /* which tensors are of tilec's own, and minded */
    uint16_t tensor_slots[MOST_TENSORS]; /* the slot of each tensor's address */
    int64_t numbers[MOST_NUMBERS]; /* the slots first; all others are for programs */
    uint64_t key[MOST_KEY];
};

/* Read a signature from Python: sequences of places. */
bool signature_read(struct signature *signature, Py_ssize_t parameters, PyObject *tensors, PyObject *others, PyObject *keyed);

/* The stream of a launch; the handle as an int of Python too, where one was met, which is owned then. */
struct stream {
    CUstream handle;
    PyObject *number;
};

/* How the tensors of a call are read. */
struct reading {
    PyObject *fallback;        /* Python's reader of arrays */
    PyObject *const *given;    /* what Python has read of each of them; NULL to read them */
    bool minded;               /* whether the caller minds the leases of tensors of tilec's own */
};

/* Read a call of all parameters. Types in the key are borrowed from the values. */
enum outcome call_read(
    struct core *core, const struct signature *signature, PyObject *const *values, const struct reading *reading, struct call *call);

/* Find the handle of a stream. May run Python. */
enum outcome stream_handle(struct core *core, PyObject *object, struct stream *stream);

/* Find the stream of a call that names none: the current one of the first array whose library has one. May run Python. */
enum outcome call_stream(struct core *core, const struct signature *signature, const struct call *call, struct stream *stream);

#endif
