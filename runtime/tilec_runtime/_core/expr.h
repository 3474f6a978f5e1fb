/* The program of a launch plan: arithmetic over 64-bit integers, without jumps.
 *
 * Python writes it once per plan, as postfix code (`run` in runtime/tilec_runtime/launch/program.py is the reference). `program_read` verifies
 * it, and translates it to steps with fixed places for operands instead of a stack. `program_run` executes the steps at each launch.
 * Every value lies between -2**63 and 2**63, both excluded.
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
    OP_POW2 = 32,
    OP_GET,
    OP_FITS,
    OP_DIVISIBLE,
    OP_MOVE = 64, /* from here on: steps that do not exist in postfix code */
    OP_ALIGNED,
};

/* Most values on a program's stack, and most different constants. */
#define MOST_STACK 64
#define MOST_CONSTANTS 256

/* The numbers of a run are in one array: slots of the call, outputs, results of steps, constants. A place is an index into it. */
enum {
    FIRST_OUTPUT = MOST_SLOTS,
    FIRST_RESULT = FIRST_OUTPUT + MOST_OUTPUTS,
    FIRST_CONSTANT = FIRST_RESULT + MOST_STACK,
    MOST_NUMBERS = FIRST_CONSTANT + MOST_CONSTANTS,
};

/* One operation on the numbers at two places, with its result at a third place. */
struct step {
    uint8_t op;
    bool check; /* whether the plan applies only if the result is not 0 */
    uint16_t target, a, b;
};

struct program {
    struct step *steps;
    int64_t *constants;
    size_t count, constant_count;
    size_t slots;                   /* one more than the largest slot that it reads */
    size_t outputs;                 /* one more than its largest output */
    uint16_t places[MOST_OUTPUTS];  /* the place of each output */
};

/* Read a postfix program: bytes that hold op, operand, op, operand, ... Sets ValueError and returns false if it is malformed, or beyond the
 * limits. */
bool program_read(struct program *program, PyObject *bytes);
void program_free(struct program *program);

/* Run a program on an array of MOST_NUMBERS that begins with the slots. Returns false if the plan does not apply: a check failed, or an
 * operation has no result. */
bool program_run(const struct program *program, int64_t *numbers);

/* Return an output of the last run. */
static inline int64_t program_output(const struct program *program, const int64_t *numbers, size_t output)
{
    return numbers[program->places[output]];
}

#endif
