/* The facts of one array argument, whatever library made it. */
#ifndef TILEC_ARRAY_H
#define TILEC_ARRAY_H

#include "core.h"

/* What Python's `classify` says of a type of arguments. */
enum reading_kind {
    BY_PYTHON = 0,         /* Python's `tensor_facts` reads it */
    BY_TORCH_EXCHANGE = 1, /* through DLPack's exchange API, and asked whether it is lazily negated */
    BY_EXCHANGE = 2,       /* through DLPack's exchange API, flags included */
    BY_LAUNCHER = 3,       /* what Python's path alone launches, such as partitions */
    BY_OWNER = 4,          /* a tensor of tilec's own: its fields are read */
};

/* Facts of one array. Extents and strides are in elements; strides of dimensions of one element are those of a contiguous array. */
struct facts {
    int64_t address, start, end; /* its bytes lie from `start` to before `end` */
    int64_t count;               /* its elements */
    int64_t *extents, *strides;  /* in the caller's slots */
    int rank, dtype, device;
    bool readonly, contiguous, empty;
    bool sound; /* aligned to its elements; memory where there are elements */
    bool ahead; /* no stride is negative */
    bool owned; /* a tensor of tilec's own, whose lease is minded */
};

/* Read an array. `room` is where extents and strides go, `count` how many numbers fit there; `fallback` is Python's reader. Tensors of
 * tilec's own are declined unless the caller minds their leases. */
enum outcome array_read(
    struct core *core, PyObject *value, PyObject *fallback, bool minded, int64_t *room, size_t count, struct facts *facts);

/* Copy facts that Python has read (`TensorFacts`). */
enum outcome array_copy(const struct core *core, PyObject *found, int64_t *room, size_t count, struct facts *facts);

/* What is known of the current stream of an array's library. */
enum streams { NO_STREAMS, CURRENT_STREAM, STREAMS_OF_PYTHON /* only Python can tell */ };

/* Find the current stream of the library of an array that was read, on a device. */
enum streams array_stream(struct core *core, PyObject *value, int device, CUstream *stream);

/* Drop the cached readers. */
void array_clear(struct core *core);

#endif
