#include "expr.h"

#include <string.h>

/* Verify ---------------------------------------------------------------------------------------------------------------------------- */

/* How many values an op takes from the stack; -1 for a number that is no op. */
static int values_taken(int64_t op)
{
    switch (op) {
    case OP_CONST:
    case OP_SLOT:
    case OP_GET:
        return 0;
    case OP_NEG:
    case OP_NOT:
    case OP_CHECK:
    case OP_OUT:
    case OP_POW2:
    case OP_FITS:
    case OP_DIVISIBLE:
        return 1;
    case OP_CDIV:
    case OP_AND:
    case OP_OR:
        return 2;
    default:
        return OP_ADD <= op && op <= OP_EITHER ? 2 : -1;
    }
}

static bool leaves_value(int64_t op)
{
    return op != OP_CHECK && op != OP_OUT && op != OP_DIVISIBLE;
}

/* Raise `count` so that it is above `index`. False for an index that is out of range. */
static bool include_index(size_t *count, int64_t index, size_t most)
{
    if (index < 0 || (uint64_t)index >= most)
        return false;
    if ((size_t)index >= *count)
        *count = (size_t)index + 1;
    return true;
}

/* What the step before wrote is known from `written`: a program reads no output that it has not. */
static bool verify_operand(struct program *program, const struct step *step, bool *written)
{
    switch (step->op) {
    case OP_SLOT:
        return include_index(&program->slots, step->operand, MOST_SLOTS);
    case OP_OUT:
        if (!include_index(&program->outputs, step->operand, MOST_OUTPUTS))
            return false;
        written[step->operand] = true;
        return true;
    case OP_GET:
        return step->operand >= 0 && step->operand < MOST_OUTPUTS && written[step->operand];
    case OP_FITS:
        return step->operand != 0 && -64 <= step->operand && step->operand <= 64;
    case OP_DIVISIBLE:
        return step->operand > 0;
    case OP_CONST:
        return step->operand != INT64_MIN; /* it has no negative, so it is no number of a program */
    default:
        return true;
    }
}

static bool verify_step(struct program *program, const struct step *step, bool *written, int *depth)
{
    int taken = values_taken(step->op);
    if (taken < 0 || taken > *depth)
        return false;
    *depth += (leaves_value(step->op) ? 1 : 0) - taken;
    return *depth <= MOST_STACK && verify_operand(program, step, written);
}

static bool verify(struct program *program)
{
    bool written[MOST_OUTPUTS] = {false};
    int depth = 0;
    for (size_t i = 0; i < program->count; i++) {
        if (!verify_step(program, &program->steps[i], written, &depth)) {
            PyErr_Format(PyExc_ValueError, "the program's step %zu (op %lld) is malformed", i, (long long)program->steps[i].op);
            return false;
        }
    }
    if (depth != 0)
        PyErr_SetString(PyExc_ValueError, "the program leaves values on its stack");
    return depth == 0;
}

bool program_read(struct program *program, PyObject *bytes)
{
    *program = (struct program){0};
    if (!PyBytes_Check(bytes) || (size_t)PyBytes_GET_SIZE(bytes) % sizeof(struct step) != 0) {
        PyErr_SetString(PyExc_ValueError, "a program is bytes: pairs of an op and an operand, 64-bit integers");
        return false;
    }
    size_t size = (size_t)PyBytes_GET_SIZE(bytes);
    program->steps = PyMem_Malloc(size + 1); /* one more, since a program may be empty */
    if (program->steps == NULL) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(program->steps, PyBytes_AS_STRING(bytes), size); /* little-endian, as every host of a CUDA driver */
    program->count = size / sizeof(struct step);
    if (verify(program))
        return true;
    program_free(program);
    return false;
}

void program_free(struct program *program)
{
    PyMem_Free(program->steps);
    *program = (struct program){0};
}

/* Run ------------------------------------------------------------------------------------------------------------------------------- */

/* Divide as Python does: the quotient is rounded down. */
static bool floor_divide(int64_t a, int64_t b, int64_t *result)
{
    if (b == 0)
        return false;
    *result = a / b - (a % b != 0 && (a < 0) != (b < 0)); /* INT64_MIN, which -1 does not divide, is no value of a program */
    return true;
}

static bool ceiling_divide(int64_t a, int64_t b, int64_t *result)
{
    if (!floor_divide(-a, b, result))
        return false;
    *result = -*result;
    return true;
}

/* The remainder as Python has it: with the divisor's sign. */
static bool floor_modulo(int64_t a, int64_t b, int64_t *result)
{
    if (b == 0)
        return false;
    int64_t remainder = a % b;
    *result = remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
    return true;
}

/* Raise a value to the next power of two. */
static bool next_power(int64_t *value)
{
    if (*value < 0)
        return false;
    uint64_t power = 1;
    while (power < (uint64_t)*value)
        power <<= 1;
    *value = (int64_t)power;
    return power <= INT64_MAX;
}

/* Whether a value fits a signed integer of `bits` bits, or an unsigned one of `-bits`. */
static bool fits(int64_t value, int64_t bits)
{
    if (bits < 0)
        return value >= 0 && (bits <= -63 || value >> -bits == 0);
    int64_t half = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return -half - 1 <= value && value <= half;
}

/* Whether a value has no negative, so that it is none of a program. */
static bool is_beyond(int64_t value)
{
    return value == INT64_MIN;
}

bool program_run(const struct program *program, const int64_t *slots, int64_t *outputs)
{
    int64_t stack[MOST_STACK + 1], *top = stack; /* `top` is the last value; `verify` saw that it stays within */
    for (const struct step *step = program->steps, *end = step + program->count; step < end; step++) {
        int64_t operand = step->operand;
        switch (step->op) {
        case OP_CONST:
            *++top = operand;
            break;
        case OP_SLOT:
            *++top = slots[operand];
            break;
        case OP_GET:
            *++top = outputs[operand];
            break;
        case OP_OUT:
            outputs[operand] = *top--;
            break;
        case OP_CHECK:
            if (*top-- == 0)
                return false;
            break;
        case OP_DIVISIBLE:
            if (*top-- % operand != 0)
                return false;
            break;
        case OP_FITS:
            if (!fits(*top, operand))
                return false;
            break;
        case OP_NEG:
            *top = -*top;
            break;
        case OP_NOT:
            *top = *top == 0;
            break;
        case OP_POW2:
            if (!next_power(top))
                return false;
            break;
        case OP_ADD:
            top--;
            if (__builtin_add_overflow(top[0], top[1], top) || is_beyond(*top))
                return false;
            break;
        case OP_SUB:
            top--;
            if (__builtin_sub_overflow(top[0], top[1], top) || is_beyond(*top))
                return false;
            break;
        case OP_MUL:
            top--;
            if (__builtin_mul_overflow(top[0], top[1], top) || is_beyond(*top))
                return false;
            break;
        case OP_FLOORDIV:
            top--;
            if (!floor_divide(top[0], top[1], top))
                return false;
            break;
        case OP_CDIV:
            top--;
            if (!ceiling_divide(top[0], top[1], top))
                return false;
            break;
        case OP_MOD:
            top--;
            if (!floor_modulo(top[0], top[1], top))
                return false;
            break;
#define BINARY(op, value) \
        case op: { \
            int64_t b = *top--, a = *top; \
            *top = (value); \
            break; \
        }
        BINARY(OP_MIN, a < b ? a : b)
        BINARY(OP_MAX, a > b ? a : b)
        BINARY(OP_EQ, a == b)
        BINARY(OP_NE, a != b)
        BINARY(OP_LT, a < b)
        BINARY(OP_LE, a <= b)
        BINARY(OP_GT, a > b)
        BINARY(OP_GE, a >= b)
        BINARY(OP_BOTH, a != 0 && b != 0)
        BINARY(OP_EITHER, a != 0 || b != 0)
        BINARY(OP_AND, a != 0 ? b : a)
        BINARY(OP_OR, a != 0 ? a : b)
#undef BINARY
        }
    }
    return true;
}
