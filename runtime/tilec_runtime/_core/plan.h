/* A launch plan: the core's copy of a plan that Python made (`Plan` in runtime/tilec_runtime/launch/prepare.py). Immutable. */
#ifndef TILEC_PLAN_H
#define TILEC_PLAN_H

#include "call.h"

/* The first outputs of a program: grid, block and dynamic shared memory. */
enum { OUTPUT_GRID = 0, OUTPUT_BLOCK = 3, OUTPUT_SHARED = 6, SHAPE_OUTPUTS = 7 };

enum patch_kind { PATCH_ADDRESS = 0, PATCH_OUTPUT = 1, PATCH_VALUE = 2 };

/* One value that a launch writes into its copy of the argument block. */
struct patch {
    int kind;
    uint32_t source, offset, size;
    PyObject *format; /* text: a character of the struct module, or what Python's encoder knows */
    char code;        /* the character */
    uint16_t place;   /* of an address or an output among the numbers of a call */
};

struct plan {
    PyObject_HEAD
    PyObject *source; /* Python's plan: it keeps the image loaded */
    struct program program;
    unsigned char *block; /* the argument block, constants filled in */
    uint32_t *offsets;    /* of each kernel argument in the block */
    struct patch *patches;
    size_t block_size, offset_count, patch_count;
    CUfunction function;      /* NULL where a driver's double launches */
    uint32_t cluster[3];
    bool cooperative, programmatic;
    bool launches; /* false for an empty grid */
};

/* One launch of a plan, with memory for its arguments: it lives on the call's stack. */
struct prepared {
    void *parameters[MOST_ARGUMENTS];
    _Alignas(16) unsigned char block[MOST_BLOCK];
};

/* Copy Python's plan, for calls of this signature that have the key of this call. `natively` tells whether the driver itself
 * launches it. NULL with ValueError where the core does not take it. */
struct plan *plan_new(struct core *core, PyObject *source, const struct signature *signature, const struct call *call, bool natively);

/* Whether a plan applies to a call, whose numbers have its outputs then. Runs no Python. */
bool plan_applies(const struct plan *plan, struct call *call);

/* Fill the arguments of a launch of a plan that applies. May run Python. */
enum outcome plan_fill(const struct plan *plan, const struct core *core, const struct call *call, struct prepared *prepared);

extern PyType_Spec plan_spec;

#endif
