/* The facts of one array argument of any library. */
#ifndef TILEC_ARRAY_H
#define TILEC_ARRAY_H

#include "core.h"

/* The ways to read arguments of a type, which Python's `classify` returns. */
enum reading_kind {
    BY_PYTHON = 0,         /* Python's `tensor_facts` reads it */
    BY_TORCH_EXCHANGE = 1, /* through DLPack's exchange API, with a check for a lazy negation */
    BY_EXCHANGE = 2,       /* through DLPack's exchange API, flags included */
    BY_LAUNCHER = 3,       /* only Python's path launches it, such as a partition */
    BY_OWNER = 4,          /* one of tilec's own tensors: its fields are read */
};

/* Facts of one array. Strides are in elements; a dimension of extent 1 has the stride of a contiguous array. */
struct facts {
    int64_t address, start, end; /* its bytes lie from `start` to before `end` */
    int64_t count;               /* number of elements */
    int64_t *extents, *strides;  /* in the caller's slots */
    int rank, dtype, device;
    bool readonly, contiguous, empty;
    bool sound; /* aligned to its elements; has memory if it has elements */
    bool ahead; /* no stride is negative */
    bool owned; /* one of tilec's own tensors, whose lease is checked */
};

/* Read an array. Extents and strides are written to `room`, which holds `count` numbers. `fallback` is Python's reader. The caller checks the
 * leases of tilec's own tensors. */
enum outcome array_read(struct core *core, PyObject *value, PyObject *fallback, int64_t *room, size_t count, struct facts *facts);

/* Copy facts that Python has read (a `TensorFacts`). */
enum outcome array_copy(const struct core *core, PyObject *found, int64_t *room, size_t count, struct facts *facts);

/* Whether an array's library has a current stream. */
enum streams { NO_STREAMS, CURRENT_STREAM, STREAMS_OF_PYTHON /* Python has to find it */ };

/* Find the current stream of an array's library on a device. The array was read before. */
enum streams array_stream(struct core *core, PyObject *value, int device, CUstream *stream);

/* Drop the cached readers. */
void array_clear(struct core *core);

#endif
