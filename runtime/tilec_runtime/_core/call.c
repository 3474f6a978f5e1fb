#include "call.h"

#include <string.h>

#include "array.h"

/* Signatures ------------------------------------------------------------------------------------------------------------------------- */

/* Read places of parameters. Returns their number, or -1 with an exception. */
static Py_ssize_t read_places(PyObject *sequence, Py_ssize_t parameters, uint16_t *places, Py_ssize_t most)
{
    Py_ssize_t count = PySequence_Size(sequence);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        Py_ssize_t place = item == NULL ? -1 : PyLong_AsSsize_t(item);
        Py_XDECREF(item);
        if (i >= most || place < 0 || place >= parameters) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a signature that the launch core does not take");
            return -1;
        }
        places[i] = (uint16_t)place;
    }
    return count;
}

static void mark_keyed(struct signature *signature, const uint16_t *places, size_t count)
{
    for (size_t i = 0; i < signature->other_count; i++)
        for (size_t k = 0; k < count; k++)
            signature->keyed[i] = signature->keyed[i] || signature->others[i] == places[k];
}

bool signature_read(struct signature *signature, Py_ssize_t parameters, PyObject *tensors, PyObject *others, PyObject *keyed)
{
    *signature = (struct signature){.parameters = (size_t)parameters};
    uint16_t deciding[MOST_KEY];
    Py_ssize_t tensor_count = read_places(tensors, parameters, signature->tensors, MOST_TENSORS);
    Py_ssize_t other_count = tensor_count < 0 ? -1 : read_places(others, parameters, signature->others, MOST_KEY);
    Py_ssize_t keyed_count = other_count < 0 ? -1 : read_places(keyed, parameters, deciding, MOST_KEY);
    if (keyed_count < 0)
        return false;
    signature->tensor_count = (size_t)tensor_count;
    signature->other_count = (size_t)other_count;
    mark_keyed(signature, deciding, (size_t)keyed_count);
    return true;
}

/* Calls ------------------------------------------------------------------------------------------------------------------------------ */

static bool add_slot(struct call *call, int64_t number)
{
    if (call->slot_count == MOST_SLOTS)
        return false;
    call->numbers[call->slot_count++] = number;
    return true;
}

static bool add_key(struct call *call, uint64_t word)
{
    if (call->key_count == MOST_KEY)
        return false;
    call->key[call->key_count++] = word;
    return true;
}

/* The facts of a tensor that are in the key, in one word. It is never 0, which stands for None. */
static uint64_t class_of(const struct facts *facts)
{
    uint64_t flags = (uint64_t)1 | (uint64_t)facts->readonly << 1 | (uint64_t)facts->contiguous << 2;
    flags |= (uint64_t)facts->empty << 3 | (uint64_t)facts->sound << 4 | (uint64_t)facts->ahead << 5;
    return flags | (uint64_t)facts->rank << 8 | (uint64_t)facts->dtype << 16 | (uint64_t)(uint32_t)facts->device << 32;
}

static enum outcome read_tensor(
    struct core *core, PyObject *value, PyObject *fallback, PyObject *given, struct call *call, bool *owned)
{
    if (value == Py_None)
        return add_slot(call, 0) && add_key(call, 0) ? DONE : DECLINED;
    struct facts facts;
    size_t layout = call->slot_count + 3; /* extents and strides follow the addresses */
    if (layout >= MOST_SLOTS)
        return DECLINED;
    int64_t *room = &call->numbers[layout];
    enum outcome outcome = given != NULL ? array_copy(core, given, room, MOST_SLOTS - layout, &facts)
                                         : array_read(core, value, fallback, room, MOST_SLOTS - layout, &facts);
    if (outcome != DONE)
        return outcome;
    call->numbers[layout - 3] = facts.address;
    call->numbers[layout - 2] = facts.start;
    call->numbers[layout - 1] = facts.end;
    call->slot_count = layout + 2 * (size_t)facts.rank;
    *owned = facts.owned;
    return add_key(call, class_of(&facts)) ? DONE : DECLINED;
}

/* Read the slot of an exact int or bool. Returns false, and sets the slot to 0, for a value that programs do not read. */
static bool slot_of(PyObject *value, int64_t *slot)
{
    int overflow;
    *slot = 0;
    if (!PyLong_CheckExact(value) && !PyBool_Check(value))
        return false;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || number == INT64_MIN) /* excluded from programs, because it has no negative */
        return false;
    *slot = number;
    return true;
}

static bool read_other(PyObject *value, bool keyed, struct call *call)
{
    int64_t slot;
    bool slotted = slot_of(value, &slot);
    if (!add_slot(call, slot) || !add_key(call, (uint64_t)(uintptr_t)Py_TYPE(value)))
        return false;
    if (!keyed || slotted)
        return true;
    if (!PyFloat_CheckExact(value))
        return false; /* the value is in the key, and only Python can compare it */
    double number = PyFloat_AS_DOUBLE(value);
    uint64_t bits; /* distinguish 0.0 from -0.0 */
    memcpy(&bits, &number, sizeof bits);
    return add_key(call, bits);
}

enum outcome call_read(struct core *core, const struct signature *signature, PyObject *const *values, PyObject *fallback,
    PyObject *const *given, struct call *call)
{
    call->values = values;
    call->slot_count = call->key_count = 0;
    call->any_owned = false;
    for (size_t i = 0; i < signature->tensor_count; i++) {
        call->tensor_slots[i] = (uint16_t)call->slot_count;
        PyObject *facts = given == NULL ? NULL : given[i];
        call->owned[i] = false;
        enum outcome outcome = read_tensor(core, values[signature->tensors[i]], fallback, facts, call, &call->owned[i]);
        if (outcome != DONE)
            return outcome;
        call->any_owned = call->any_owned || call->owned[i];
    }
    for (size_t i = 0; i < signature->other_count; i++)
        if (!read_other(values[signature->others[i]], signature->keyed[i], call))
            return DECLINED;
    return DONE;
}

/* Streams ---------------------------------------------------------------------------------------------------------------------------- */

/* Set a handle, an unsigned 64-bit int. The stream steals the reference. */
static enum outcome take_handle(PyObject *number, struct stream *stream)
{
    Py_XSETREF(stream->number, number);
    if (number == NULL || !PyLong_Check(number))
        return declined();
    stream->handle = (CUstream)(uintptr_t)PyLong_AsUnsignedLongLong(number);
    return (uintptr_t)stream->handle == UINTPTR_MAX && PyErr_Occurred() ? declined() : DONE;
}

/* Return the attribute that has the handle in streams of a type, a new reference. The last type is cached, because most programs use one. */
static PyObject *handle_attribute(struct core *core, PyTypeObject *type)
{
    if (core->stream_type != type) {
        PyObject *name = core->stream_attribute == NULL ? NULL : PyObject_CallOneArg(core->stream_attribute, (PyObject *)type);
        if (name == NULL)
            return NULL;
        Py_XSETREF(core->stream_name, name);
        Py_XSETREF(core->stream_type, (PyTypeObject *)Py_NewRef(type));
    }
    return Py_NewRef(core->stream_name);
}

enum outcome stream_handle(struct core *core, PyObject *object, struct stream *stream)
{
    if (PyLong_CheckExact(object))
        return take_handle(Py_NewRef(object), stream);
    PyObject *name = handle_attribute(core, Py_TYPE(object)), *number = NULL;
    if (name != NULL)
        number = name == Py_None ? PyObject_CallOneArg(core->stream_handle, object) : PyObject_GetAttr(object, name);
    Py_XDECREF(name);
    return take_handle(number, stream);
}

static enum outcome current_stream(struct core *core, const struct signature *signature, const struct call *call, struct stream *stream)
{
    PyObject *values = PyTuple_New((Py_ssize_t)signature->parameters);
    for (size_t i = 0; values != NULL && i < signature->parameters; i++)
        PyTuple_SET_ITEM(values, (Py_ssize_t)i, Py_NewRef(call->values[i]));
    PyObject *number = values == NULL ? NULL : PyObject_CallOneArg(core->current_stream, values);
    Py_XDECREF(values);
    return take_handle(number, stream);
}

enum outcome call_stream(struct core *core, const struct signature *signature, const struct call *call, struct stream *stream)
{
    stream->handle = NULL; /* the default stream, if no library has a current stream */
    for (size_t i = 0; i < signature->tensor_count; i++) {
        PyObject *value = call->values[signature->tensors[i]];
        int device = (int)(int32_t)(call->key[i] >> 32);
        enum streams streams = value == Py_None ? NO_STREAMS : array_stream(core, value, device, &stream->handle);
        if (streams != NO_STREAMS)
            return streams == CURRENT_STREAM ? DONE : current_stream(core, signature, call, stream);
    }
    return DONE;
}
