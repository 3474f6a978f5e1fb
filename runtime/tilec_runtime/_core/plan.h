/* A launch plan: the core's copy of a plan that Python made (`LaunchPlan` in runtime/tilec_runtime/launch/plans.py). Immutable. */
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
    PyObject *format; /* a string: a character of the struct module, or a format of Python's encoder */
    char code;        /* the first character of `format` */
    uint16_t place;   /* place of an address or an output among the numbers of a call */
};

struct plan {
    PyObject_HEAD
    PyObject *source; /* Python's plan */
    struct program program;
    unsigned char *block; /* the argument block, constants filled in */
    uint32_t *offsets;    /* offset of each kernel argument in the block */
    struct patch *patches;
    size_t block_size, offset_count, patch_count;
    CUfunction function;      /* NULL if a test double launches */
    uint32_t cluster[3];
    bool cooperative, programmatic;
    bool launches; /* false for an empty grid */
};

/* One launch of a plan, with memory for its arguments. It is allocated on the stack. */
struct prepared {
    void *parameters[MOST_ARGUMENTS];
    _Alignas(16) unsigned char block[MOST_BLOCK];
};

/* Copy Python's plan, for calls with this signature and the key of this call. `natively`: whether the driver itself launches
 * it, and not a test double. Returns NULL with ValueError if the plan is malformed or beyond the core's limits. */
struct plan *plan_new(struct core *core, PyObject *source, const struct signature *signature, const struct call *call, bool natively);

/* Whether a plan applies to a call. If so, the call's numbers have the plan's outputs. Runs no Python. */
bool plan_applies(const struct plan *plan, struct call *call);

/* Fill the arguments of a launch of a plan that applies. May run Python. */
enum outcome plan_fill(const struct plan *plan, const struct core *core, const struct call *call, struct prepared *prepared);

extern PyType_Spec plan_spec;

#endif
