/* The program of a launch plan: a flat postfix program over 64-bit integers.
 *
 * Python writes it once for a plan (`run` in runtime/tilec_runtime/launch/program.py is the reference); `program_run` evaluates it at each launch.
 * Every value lies between -2**63 and 2**63, both excluded.
 * A program has no jumps: its stack depth is known before it runs, so `program_read` verifies it and `program_run` need not.
 */
#ifndef TILEC_EXPR_H
#define TILEC_EXPR_H

#include "core.h"

enum op {
    OP_CONST = 1,
    OP_SLOT,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_FLOORDIV,
    OP_MOD,
    OP_MIN,
    OP_MAX,
    OP_NEG,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_NOT,
    OP_BOTH,
    OP_EITHER,
    OP_CHECK,
    OP_OUT,
    OP_CDIV = 32,
    OP_POW2,
    OP_GET,
    OP_AND,
    OP_OR,
    OP_FITS,
    OP_DIVISIBLE,
};

/* Values that a program may have on its stack at a time. */
#define MOST_STACK 64

struct step {
    int64_t op, operand;
};

struct program {
    struct step *steps;
    size_t count;
    size_t slots;   /* how many slots it reads: one more than the largest index */
    size_t outputs; /* how many outputs it writes, likewise */
};

/* Read and verify a program: bytes that hold op, operand, op, operand, ... Sets ValueError and returns false for anything else. */
bool program_read(struct program *program, PyObject *bytes);
void program_free(struct program *program);

/* Evaluate a program. Returns false where the plan does not apply: a check failed, or a value has no result. */
bool program_run(const struct program *program, const int64_t *slots, int64_t *outputs);

#endif
