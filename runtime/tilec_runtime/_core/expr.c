#include "expr.h"

#include <string.h>

#define NO_PLACE UINT16_MAX

/* Read ------------------------------------------------------------------------------------------------------------------------------ */

/* The state of a translation from postfix code to steps. The stack has the places of the values that postfix code pushed. */
struct reading_state {
    struct program *program;
    uint16_t stack[MOST_STACK];
    int depth;
    bool fresh; /* whether the last step computes the value on top of the stack */
};

/* The number of values that an op takes from the stack; -1 for a number that is not an op. */
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
    default:
        return OP_ADD <= op && op <= OP_EITHER ? 2 : -1;
    }
}

static bool push(struct reading_state *state, size_t place)
{
    if (state->depth == MOST_STACK)
        return false;
    state->stack[state->depth++] = (uint16_t)place;
    state->fresh = false;
    return true;
}

/* The place of a constant; NO_PLACE if there are too many. */
static uint16_t constant_place(struct program *program, int64_t constant)
{
    size_t i = 0;
    while (i < program->constant_count && program->constants[i] != constant)
        i++;
    if (i == MOST_CONSTANTS)
        return NO_PLACE;
    if (i == program->constant_count)
        program->constants[program->constant_count++] = constant;
    return (uint16_t)(FIRST_CONSTANT + i);
}

static bool push_constant(struct reading_state *state, int64_t constant)
{
    uint16_t place = constant_place(state->program, constant);
    return constant != INT64_MIN && place != NO_PLACE && push(state, place); /* INT64_MIN is excluded, because it has no negative */
}

static bool push_slot(struct reading_state *state, int64_t slot)
{
    if (slot < 0 || slot >= MOST_SLOTS)
        return false;
    if ((size_t)slot >= state->program->slots)
        state->program->slots = (size_t)slot + 1;
    return push(state, (size_t)slot);
}

static bool push_output(struct reading_state *state, int64_t output)
{
    return output >= 0 && output < MOST_OUTPUTS && state->program->places[output] != NO_PLACE && push(state, state->program->places[output]);
}

static struct step *add_step(struct reading_state *state, int64_t op, size_t target, uint16_t a, uint16_t b)
{
    struct step *step = &state->program->steps[state->program->count++];
    *step = (struct step){.op = (uint8_t)op, .target = (uint16_t)target, .a = a, .b = b};
    return step;
}

/* Add a step that takes its operands from the stack and pushes its result. */
static bool compute(struct reading_state *state, int64_t op, int taken)
{
    state->depth -= taken;
    size_t target = (size_t)(FIRST_RESULT + state->depth);
    add_step(state, op, target, state->stack[state->depth], state->stack[state->depth + taken - 1]);
    push(state, target);
    return state->fresh = true;
}

/* Pop the value on top of the stack and check it. The step that computes it does so, if it is the last one. */
static bool check(struct reading_state *state)
{
    uint16_t place = state->stack[--state->depth];
    if (!state->fresh)
        add_step(state, OP_MOVE, (size_t)(FIRST_RESULT + state->depth), place, place);
    state->program->steps[state->program->count - 1].check = true;
    state->fresh = false;
    return true;
}

/* Check a property of the value on top of the stack, without popping it. */
static bool check_property(struct reading_state *state, int64_t op, int64_t constant)
{
    uint16_t place = constant_place(state->program, constant);
    if (place == NO_PLACE || state->depth == MOST_STACK)
        return false;
    add_step(state, op, (size_t)(FIRST_RESULT + state->depth), state->stack[state->depth - 1], place)->check = true;
    state->fresh = false;
    return true;
}

static bool check_divisible(struct reading_state *state, int64_t divisor)
{
    if (divisor <= 0)
        return false;
    bool power = (divisor & (divisor - 1)) == 0; /* a mask takes half the time of a division */
    bool checked = check_property(state, power ? OP_ALIGNED : OP_DIVISIBLE, power ? divisor - 1 : divisor);
    state->depth--;
    return checked;
}

/* Pop an output from the stack. A result, or another output, moves to this output's place. Slots and constants stay in their places. */
static bool take_output(struct reading_state *state, int64_t output)
{
    uint16_t place = state->stack[--state->depth];
    if (output < 0 || output >= MOST_OUTPUTS)
        return false;
    size_t own = (size_t)(FIRST_OUTPUT + output);
    for (int i = 0; i < state->depth; i++)
        if (state->stack[i] == own)
            return false; /* its old value is still to be read */
    if (FIRST_OUTPUT <= place && place < FIRST_CONSTANT) {
        if (state->fresh)
            state->program->steps[state->program->count - 1].target = (uint16_t)own;
        else
            add_step(state, OP_MOVE, own, place, place);
        place = (uint16_t)own;
    }
    state->program->places[output] = place;
    if ((size_t)output >= state->program->outputs)
        state->program->outputs = (size_t)output + 1;
    state->fresh = false;
    return true;
}

static bool read_step(struct reading_state *state, int64_t op, int64_t operand)
{
    int taken = values_taken(op);
    if (taken < 0 || taken > state->depth)
        return false;
    switch (op) {
    case OP_CONST:
        return push_constant(state, operand);
    case OP_SLOT:
        return push_slot(state, operand);
    case OP_GET:
        return push_output(state, operand);
    case OP_OUT:
        return take_output(state, operand);
    case OP_CHECK:
        return check(state);
    case OP_DIVISIBLE:
        return check_divisible(state, operand);
    case OP_FITS:
        return operand != 0 && -64 <= operand && operand <= 64 && check_property(state, op, operand);
    default:
        return compute(state, op, taken);
    }
}

static bool read_steps(struct program *program, const char *bytes, size_t count)
{
    struct reading_state state = {.program = program};
    for (size_t i = 0; i < MOST_OUTPUTS; i++)
        program->places[i] = NO_PLACE;
    for (size_t i = 0; i < count; i++) {
        int64_t pair[2];
        memcpy(pair, bytes + i * sizeof pair, sizeof pair); /* little-endian, as on every host with a CUDA driver */
        if (!read_step(&state, pair[0], pair[1])) {
            PyErr_Format(PyExc_ValueError, "the program's step %zu (op %lld) is malformed", i, (long long)pair[0]);
            return false;
        }
    }
    if (state.depth != 0)
        PyErr_SetString(PyExc_ValueError, "the program leaves values on its stack");
    return state.depth == 0;
}

/* Outputs that are never written are 0. */
static bool settle_outputs(struct program *program)
{
    uint16_t zero = constant_place(program, 0);
    for (size_t i = 0; i < program->outputs; i++)
        if (program->places[i] == NO_PLACE)
            program->places[i] = zero;
    if (zero == NO_PLACE)
        PyErr_SetString(PyExc_ValueError, "the program has more constants than the launch core takes");
    return zero != NO_PLACE;
}

bool program_read(struct program *program, PyObject *bytes)
{
    *program = (struct program){0};
    size_t pair = 2 * sizeof(int64_t);
    if (!PyBytes_Check(bytes) || (size_t)PyBytes_GET_SIZE(bytes) % pair != 0) {
        PyErr_SetString(PyExc_ValueError, "a program is bytes: pairs of an op and an operand, 64-bit integers");
        return false;
    }
    size_t count = (size_t)PyBytes_GET_SIZE(bytes) / pair;
    program->steps = PyMem_Calloc(count + 1, sizeof *program->steps); /* plus 1, because a program may be empty */
    program->constants = PyMem_Calloc(MOST_CONSTANTS, sizeof *program->constants);
    if (program->steps == NULL || program->constants == NULL)
        PyErr_NoMemory();
    else if (read_steps(program, PyBytes_AS_STRING(bytes), count) && settle_outputs(program))
        return true;
    program_free(program);
    return false;
}

void program_free(struct program *program)
{
    PyMem_Free(program->steps);
    PyMem_Free(program->constants);
    *program = (struct program){0};
}

/* Run ------------------------------------------------------------------------------------------------------------------------------- */

/* Divide as Python does, rounding down. */
static bool floor_divide(int64_t a, int64_t b, int64_t *result)
{
    if (b == 0)
        return false;
    *result = a / b - (a % b != 0 && (a < 0) != (b < 0)); /* no overflow: INT64_MIN is excluded from programs */
    return true;
}

/* Compute the remainder as Python does, with the divisor's sign. */
static bool floor_modulo(int64_t a, int64_t b, int64_t *result)
{
    if (b == 0)
        return false;
    int64_t remainder = a % b;
    *result = remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
    return true;
}

/* Compute the smallest power of two that is not below a value. */
static bool next_power(int64_t value, int64_t *result)
{
    if (value < 0)
        return false;
    uint64_t power = 1;
    while (power < (uint64_t)value)
        power <<= 1;
    *result = (int64_t)power;
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

/* Whether a value is excluded from programs, because it has no negative. */
static bool is_beyond(int64_t value)
{
    return value == INT64_MIN;
}

bool program_run(const struct program *program, int64_t *numbers)
{
    for (size_t i = 0; i < program->constant_count; i++)
        numbers[FIRST_CONSTANT + i] = program->constants[i];
    for (const struct step *step = program->steps, *end = step + program->count; step < end; step++) {
        int64_t a = numbers[step->a], b = numbers[step->b], value;
        switch (step->op) {
        case OP_MOVE:
            value = a;
            break;
        case OP_ALIGNED:
            value = (a & b) == 0;
            break;
        case OP_DIVISIBLE:
            value = a % b == 0;
            break;
        case OP_FITS:
            value = fits(a, b);
            break;
        case OP_NEG:
            value = -a;
            break;
        case OP_NOT:
            value = a == 0;
            break;
        case OP_POW2:
            if (!next_power(a, &value))
                return false;
            break;
        case OP_ADD:
            if (__builtin_add_overflow(a, b, &value) || is_beyond(value))
                return false;
            break;
        case OP_SUB:
            if (__builtin_sub_overflow(a, b, &value) || is_beyond(value))
                return false;
            break;
        case OP_MUL:
            if (__builtin_mul_overflow(a, b, &value) || is_beyond(value))
                return false;
            break;
        case OP_FLOORDIV:
            if (!floor_divide(a, b, &value))
                return false;
            break;
        case OP_MOD:
            if (!floor_modulo(a, b, &value))
                return false;
            break;
        case OP_EQ:
            value = a == b;
            break;
        case OP_NE:
            value = a != b;
            break;
        case OP_LT:
            value = a < b;
            break;
        case OP_LE:
            value = a <= b;
            break;
        case OP_GT:
            value = a > b;
            break;
        case OP_GE:
            value = a >= b;
            break;
        case OP_BOTH:
            value = a != 0 && b != 0;
            break;
        case OP_EITHER:
            value = a != 0 || b != 0;
            break;
        default: /* unreachable: `program_read` makes no other steps */
            return false;
        }
        if (step->check && value == 0)
            return false;
        numbers[step->target] = value;
    }
    return true;
}
