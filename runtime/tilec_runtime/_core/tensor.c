#include "tensor.h"

#include <string.h>
#include <structmember.h>

/* All of these types begin with objects that the garbage collector visits. Python's classes set the fields (device/core.py defines the same
 * ones without a core). No Python code runs while they are read here. */
struct fields {
    PyObject_HEAD
    PyObject *objects[3];
};

/* A stream as long as it is open: `count` is the number of the last use of memory on it, `done` of the last one that is known to be complete. */
struct line {
    struct fields base;
    unsigned long long handle;
    long long count, done;
    int ordinal;
    char open, own; /* own: whether tilec made the stream; no other library captures such a stream */
};

/* The last uses of memory. Objects: the line of the last write; a dict of the numbers of the reads since then, by line. */
struct uses {
    struct fields base;
    long long at; /* number of the last write, or of a later read on its line */
};
enum { WRITTEN, READS };
#define FOREVER (1LL << 62) /* the number of lasting uses (the same as in lines.py) */

/* The right to use a tensor. Objects: the parent lease; a dict of the claims of leases taken of this one. */
struct lease {
    struct fields base;
    char held; /* whether its claim is among those of its parent */
};
enum { PARENT, TAKEN };

/* A tensor. Objects: Python's facts, the lease, the uses of the memory. */
struct described {
    struct fields base;
    char usable;
    char shared; /* whether it is one of several owners, which all read */
    bool read; /* whether the facts were copied */
    struct facts facts;
    int64_t layout[2 * MOST_RANK];
};
enum { FACTS, LEASE, USES };

/* Reading ---------------------------------------------------------------------------------------------------------------------------- */

/* Copy Python's facts, which never change. */
static bool copy_facts(struct core *core, struct described *tensor)
{
    PyObject *found = tensor->base.objects[FACTS];
    if (!tensor->read && found != NULL)
        tensor->read = array_copy(core, found, tensor->layout, 2 * MOST_RANK, &tensor->facts) == DONE;
    return tensor->read;
}

enum outcome tensor_read(struct core *core, PyObject *value, int64_t *room, size_t count, struct facts *facts)
{
    struct described *tensor = (struct described *)value;
    if (!copy_facts(core, tensor))
        return declined();
    size_t rank = (size_t)tensor->facts.rank;
    if (2 * rank > count)
        return DECLINED;
    *facts = tensor->facts;
    for (size_t i = 0; i < 2 * rank; i++)
        room[i] = tensor->layout[i];
    facts->extents = room;
    facts->strides = room + rank;
    facts->owned = true;
    return DONE;
}

/* Leases ----------------------------------------------------------------------------------------------------------------------------- */

/* Whether no claim conflicts with a use: a write conflicts with all claims, a read with claims that write. A claim is a Python tuple, whose
 * second item tells whether it writes. */
static bool is_unclaimed(PyObject *taken, bool write)
{
    if (taken == NULL || !PyDict_CheckExact(taken))
        return false;
    PyObject *number, *claim;
    for (Py_ssize_t place = 0; PyDict_Next(taken, &place, &number, &claim);)
        if (write || !PyTuple_Check(claim) || PyTuple_GET_SIZE(claim) < 2 || PyTuple_GET_ITEM(claim, 1) != Py_False)
            return false;
    return true;
}

/* Whether no claim on a lease conflicts, and the lease and all its ancestors hold their claims. */
static bool is_free(const struct core *core, PyObject *object, bool write)
{
    bool leaf = true;
    while (object != NULL && is_kind(object, core->lease_type)) {
        const struct lease *lease = (const struct lease *)object;
        if (leaf && !is_unclaimed(lease->base.objects[TAKEN], write))
            return false;
        leaf = false;
        object = lease->base.objects[PARENT];
        if (object == NULL || object == Py_None)
            return true; /* the lease of the memory itself */
        if (!lease->held)
            return false;
    }
    return false;
}

/* Stream order (the same rules as in tensors/uses.py) -------------------------------------------------------------------------------- */

/* Whether a use on a line needs no wait for the use of this number on `other`. On another library's stream, the first use after one on another
 * line takes Python's path, which checks whether the stream is captured. */
static bool is_ordered(const struct core *core, PyObject *other, long long number, PyObject *line)
{
    return other == line ||
           (((struct line *)line)->own && is_kind(other, core->line_type) && ((struct line *)other)->done >= number);
}

/* Whether the reads since the last write need no wait. */
static bool reads_are_ordered(const struct core *core, PyObject *reads, PyObject *line)
{
    PyObject *other, *number;
    for (Py_ssize_t place = 0; PyDict_Next(reads, &place, &other, &number);) {
        int overflow;
        long long value = PyLong_Check(number) ? PyLong_AsLongLongAndOverflow(number, &overflow) : INT64_MAX;
        if (!is_ordered(core, other, value, line))
            return false;
    }
    return true;
}

/* Whether a use on this line needs no wait. */
static bool is_in_order(const struct core *core, PyObject *object, bool write, PyObject *line)
{
    if (object == NULL || !is_kind(object, core->uses_type))
        return false;
    const struct uses *uses = (const struct uses *)object;
    PyObject *written = uses->base.objects[WRITTEN], *reads = uses->base.objects[READS];
    if (reads == NULL || !PyDict_CheckExact(reads))
        return false;
    bool read = PyDict_GET_SIZE(reads) != 0; /* each read waited for the write */
    if (read && (write || PyDict_GetItemWithError(reads, line) != NULL))
        return !write || reads_are_ordered(core, reads, line);
    return written == NULL || written == Py_None || is_ordered(core, written, uses->at, line);
}

bool tensor_is_free(const struct core *core, PyObject *value, bool write)
{
    const struct described *tensor = (const struct described *)value;
    return tensor->usable && tensor->read && !(write && tensor->facts.readonly) && is_free(core, tensor->base.objects[LEASE], write);
}

/* The claims on an owned or shared tensor; NULL for a borrow, and for a tensor that cannot be used. */
static PyObject *own_claims(const struct core *core, PyObject *value)
{
    const struct described *tensor = (const struct described *)value;
    PyObject *object = tensor->base.objects[LEASE];
    if (!tensor->usable || object == NULL || !PyObject_TypeCheck(object, core->lease_type))
        return NULL;
    PyObject *parent = ((const struct lease *)object)->base.objects[PARENT], *taken = ((const struct lease *)object)->base.objects[TAKEN];
    return (parent == NULL || parent == Py_None) && taken != NULL && PyDict_CheckExact(taken) ? taken : NULL;
}

bool tensor_is_usable(PyObject *value)
{
    return ((const struct described *)value)->usable != 0;
}

enum outcome tensor_claim(struct core *core, PyObject *value, bool write, PyObject *number, PyObject *reads, PyObject *moves)
{
    const struct described *tensor = (const struct described *)value;
    PyObject *taken = own_claims(core, value);
    if (taken == NULL || !copy_facts(core, (struct described *)value) || (write && tensor->facts.readonly) ||
        !is_unclaimed(taken, !tensor->shared) || PyDict_Contains(taken, number))
        return PyErr_Occurred() ? declined() : DECLINED;
    return PyDict_SetItem(taken, number, tensor->shared ? reads : moves) < 0 ? RAISED : DONE;
}

bool tensor_release(const struct core *core, PyObject *value, PyObject *number)
{
    PyObject *object = ((const struct described *)value)->base.objects[LEASE];
    PyObject *taken = object != NULL && PyObject_TypeCheck(object, core->lease_type) ? ((struct lease *)object)->base.objects[TAKEN] : NULL;
    if (taken == NULL || !PyDict_CheckExact(taken) || PyDict_GetItemWithError(taken, number) == NULL)
        return !PyErr_Occurred();
    return PyDict_DelItem(taken, number) == 0;
}

bool tensor_is_in_order(const struct core *core, PyObject *value, bool write, PyObject *line)
{
    return is_in_order(core, ((const struct described *)value)->base.objects[USES], write, line);
}

bool uses_last(const struct core *core, PyObject *lease, PyObject *object, bool write, PyObject *line)
{
    if (!PyObject_TypeCheck(lease, core->lease_type) || !PyObject_TypeCheck(object, core->uses_type))
        return false;
    const struct uses *uses = (const struct uses *)object;
    PyObject *taken = ((const struct lease *)lease)->base.objects[TAKEN], *reads = uses->base.objects[READS];
    if (taken == NULL || !PyDict_CheckExact(taken) || PyDict_GET_SIZE(taken) != 0 || reads == NULL || !PyDict_CheckExact(reads))
        return false;
    if (uses->base.objects[WRITTEN] == line && uses->at == FOREVER)
        return !write || PyDict_GET_SIZE(reads) == 0;
    PyObject *number = write ? NULL : PyDict_GetItemWithError(reads, line);
    return number != NULL && PyLong_Check(number) && PyLong_AsLongLong(number) == FOREVER;
}

/* Record a read on a line without the last write. */
static bool note_read(PyObject *reads, PyObject *line, long long number)
{
    PyObject *before = PyDict_GetItemWithError(reads, line);
    if (before != NULL && PyLong_Check(before) && PyLong_AsLongLong(before) >= number)
        return true; /* a lasting read is recorded */
    PyObject *value = PyErr_Occurred() ? NULL : PyLong_FromLongLong(number);
    bool set = value != NULL && PyDict_SetItem(reads, line, value) == 0;
    Py_XDECREF(value);
    return set;
}

bool tensor_note(PyObject *value, bool write, PyObject *object)
{
    struct line *line = (struct line *)object;
    struct uses *uses = (struct uses *)((struct described *)value)->base.objects[USES];
    PyObject **fields = uses->base.objects;
    long long number = ++line->count;
    bool same = fields[WRITTEN] == object;
    if (!write && !(same && uses->at > line->done && PyDict_GET_SIZE(fields[READS]) == 0))
        return note_read(fields[READS], object, number);
    uses->at = same && uses->at > number ? uses->at : number;
    if (write) {
        Py_XSETREF(fields[WRITTEN], Py_NewRef(object));
        PyDict_Clear(fields[READS]);
    }
    return true;
}

PyObject *line_find(const struct core *core, PyObject *lines, const struct stream *stream)
{
    bool known = stream->number != NULL && PyLong_CheckExact(stream->number);
    PyObject *handle = known ? Py_NewRef(stream->number) : PyLong_FromVoidPtr(stream->handle);
    PyObject *line = handle == NULL ? NULL : PyDict_GetItemWithError(lines, handle);
    Py_XDECREF(handle);
    return line != NULL && is_kind(line, core->line_type) ? Py_NewRef(line) : NULL;
}

/* Types ------------------------------------------------------------------------------------------------------------------------------ */

static int fields_traverse(struct fields *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (size_t i = 0; i < 3; i++)
        Py_VISIT(self->objects[i]);
    return 0;
}

static int fields_clear(struct fields *self)
{
    for (size_t i = 0; i < 3; i++)
        Py_CLEAR(self->objects[i]);
    return 0;
}

static void fields_dealloc(struct fields *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    fields_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

#define OBJECT(name, place) {name, T_OBJECT, offsetof(struct fields, objects) + (place) * sizeof(PyObject *), 0, NULL}

static PyMemberDef line_members[] = {
    {"handle", T_ULONGLONG, offsetof(struct line, handle), 0, NULL},
    {"ordinal", T_INT, offsetof(struct line, ordinal), 0, NULL},
    {"open", T_BOOL, offsetof(struct line, open), 0, NULL},
    {"own", T_BOOL, offsetof(struct line, own), 0, NULL},
    {"count", T_LONGLONG, offsetof(struct line, count), 0, NULL},
    {"done", T_LONGLONG, offsetof(struct line, done), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef uses_members[] = {
    OBJECT("written", WRITTEN),
    OBJECT("reads", READS),
    {"at", T_LONGLONG, offsetof(struct uses, at), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef lease_members[] = {
    OBJECT("parent", PARENT),
    OBJECT("taken", TAKEN),
    {"held", T_BOOL, offsetof(struct lease, held), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef described_members[] = {
    OBJECT("facts", FACTS),
    OBJECT("lease", LEASE),
    OBJECT("uses", USES),
    {"usable", T_BOOL, offsetof(struct described, usable), 0, NULL},
    {"shared", T_BOOL, offsetof(struct described, shared), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject *make_type(PyObject *module, const char *name, size_t size, PyMemberDef *members)
{
    PyType_Slot slots[] = {
        {Py_tp_traverse, fields_traverse},
        {Py_tp_clear, fields_clear},
        {Py_tp_dealloc, fields_dealloc},
        {Py_tp_members, members},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = name, .basicsize = (int)size, .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .slots = slots};
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type != NULL && PyModule_AddType(module, type) < 0)
        Py_CLEAR(type);
    return type;
}

bool tensor_types(PyObject *module, struct core *core)
{
    core->line_type = make_type(module, "tilec_runtime._core.LineFields", sizeof(struct line), line_members);
    core->uses_type = make_type(module, "tilec_runtime._core.UsesFields", sizeof(struct uses), uses_members);
    core->lease_type = make_type(module, "tilec_runtime._core.LeaseFields", sizeof(struct lease), lease_members);
    core->described_type = make_type(module, "tilec_runtime._core.DescribedFields", sizeof(struct described), described_members);
    return core->line_type != NULL && core->uses_type != NULL && core->lease_type != NULL && core->described_type != NULL;
}
