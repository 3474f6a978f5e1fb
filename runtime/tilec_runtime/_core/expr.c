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

/* Compute `a op b`, for the ops that take two values. False where there is no result. */
static bool binary(int64_t op, int64_t a, int64_t b, int64_t *result)
{
    switch (op) {
    case OP_ADD:
        return !__builtin_add_overflow(a, b, result);
    case OP_SUB:
        return !__builtin_sub_overflow(a, b, result);
    case OP_MUL:
        return !__builtin_mul_overflow(a, b, result);
    case OP_FLOORDIV:
        return floor_divide(a, b, result);
    case OP_CDIV:
        return ceiling_divide(a, b, result);
    case OP_MOD:
        return floor_modulo(a, b, result);
    case OP_MIN:
        return *result = a < b ? a : b, true;
    case OP_MAX:
        return *result = a > b ? a : b, true;
    case OP_EQ:
        return *result = a == b, true;
    case OP_NE:
        return *result = a != b, true;
    case OP_LT:
        return *result = a < b, true;
    case OP_LE:
        return *result = a <= b, true;
    case OP_GT:
        return *result = a > b, true;
    case OP_GE:
        return *result = a >= b, true;
    case OP_BOTH:
        return *result = a != 0 && b != 0, true;
    case OP_EITHER:
        return *result = a != 0 || b != 0, true;
    case OP_AND:
        return *result = a != 0 ? b : a, true;
    case OP_OR:
        return *result = a != 0 ? a : b, true;
    }
    return false;
}

/* Replace the value at the top, for the ops that take one value and leave one. */
static bool unary(const struct step *step, int64_t *value)
{
    switch (step->op) {
    case OP_NEG:
        *value = -*value;
        return true;
    case OP_NOT:
        *value = *value == 0;
        return true;
    case OP_POW2:
        return next_power(value);
    default:
        return fits(*value, step->operand);
    }
}

bool program_run(const struct program *program, const int64_t *slots, int64_t *outputs)
{
    int64_t stack[MOST_STACK + 1], *top = stack; /* `top` is the last value; `verify` saw that it stays within */
    stack[0] = 0;                                /* below the first value */
    for (size_t i = 0; i < program->count; i++) {
        const struct step *step = &program->steps[i];
        switch (step->op) {
        case OP_CONST:
            *++top = step->operand;
            break;
        case OP_SLOT:
            *++top = slots[step->operand];
            break;
        case OP_GET:
            *++top = outputs[step->operand];
            break;
        case OP_OUT:
            outputs[step->operand] = *top--;
            break;
        case OP_CHECK:
            if (*top-- == 0)
                return false;
            break;
        case OP_DIVISIBLE:
            if (*top-- % step->operand != 0)
                return false;
            break;
        case OP_NEG:
        case OP_NOT:
        case OP_POW2:
        case OP_FITS:
            if (!unary(step, top))
                return false;
            break;
        default:
            top--;
            if (!binary(step->op, top[0], top[1], top))
                return false;
        }
        if (*top == INT64_MIN) /* it has no negative */
            return false;
    }
    return true;
}
