/* The CUDA driver: the entry points that launches need, looked up in libcuda at run time, and one launch. */
#ifndef TILEC_DRIVER_H
#define TILEC_DRIVER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* The driver's types in its binary interface (CUDA 12 and 13). */
typedef int CUresult;
typedef void *CUcontext, *CUfunction, *CUgraphExec, *CUstream;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906 };

enum launch_attribute_id {
    ATTRIBUTE_COOPERATIVE = 2,
    ATTRIBUTE_CLUSTER_DIMENSION = 4,
    ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};

struct launch_attribute {
    uint32_t id, padding;
    union {
        uint8_t bytes[64];
        uint32_t cluster[3];
        int32_t flag;
    } value;
};

struct launch_config {
    uint32_t grid[3], block[3], shared;
    CUstream stream;
    struct launch_attribute *attributes;
    uint32_t attribute_count;
};

_Static_assert(sizeof(struct launch_attribute) == 72, "CUlaunchAttribute");
_Static_assert(sizeof(struct launch_config) == 56, "CUlaunchConfig");

/* The entry points of the driver that the core calls. */
struct driver {
    CUresult (*launch)(const struct launch_config *, CUfunction, void **parameters, void **extra);
    CUresult (*get_context)(CUcontext *);
    CUresult (*set_context)(CUcontext);
    CUresult (*push_context)(CUcontext);
    CUresult (*pop_context)(CUcontext *);
    CUresult (*launch_graph)(CUgraphExec, CUstream);
    CUresult (*is_capturing)(CUstream, int *status);
};

/* The device of a launch. */
struct place {
    CUcontext context; /* the primary context of the device */
    bool adopts;       /* whether a thread without a context keeps this one, as the CUDA runtime does: true for device 0 */
};

/* One launch. `driver_launch` makes its context current. */
struct launch {
    struct launch_config config;
    struct launch_attribute attributes[3];
    CUfunction function;
    struct place place;
    void **parameters;
};

/* Look up the entry points in libcuda. Sets OSError and returns false if there is no driver, or if it is too old. */
bool driver_open(struct driver *driver);

/* Use these entry points instead: {name: address}, for tests. */
bool driver_replace(struct driver *driver, PyObject *addresses);

/* Add the attributes of a launch. A cluster of one block, or with an extent of 0, adds none. */
void launch_attributes(struct launch *launch, const uint32_t cluster[3], bool cooperative, bool programmatic);

/* Enqueue a launch. It makes no call of Python, so that the caller can release the interpreter lock. */
CUresult driver_launch(const struct driver *driver, const struct launch *launch);

/* Enqueue a graph, likewise. On a stream that is captured, returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and does nothing. */
CUresult driver_launch_graph(const struct driver *driver, struct place place, CUgraphExec graph, CUstream stream);

#endif
