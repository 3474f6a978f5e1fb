#include "tensor.h"

#include <string.h>
#include <structmember.h>

/* All of these types begin with objects that the collector visits. Python's classes set the fields (tensors/fields.py has the same ones for
 * an interpreter without the core), and nothing of Python runs while they are read here. */
struct fields {
    PyObject_HEAD
    PyObject *objects[3];
};

/* A stream as long as it is open. */
struct line {
    struct fields base;
    unsigned long long handle;
    int ordinal;
    char open;
};

/* The last uses of memory: objects are the line of the last write, the mark behind it (None for all that its line has), and a dict of the
 * marks of the reads since then, by their lines. */
struct uses {
    struct fields base;
    long long count;
};
enum { WRITTEN, MARK, READS };

/* The right to use a tensor: objects are the lease that it was taken of, and a dict of the claims of leases that were taken of it. */
struct lease {
    struct fields base;
    char held; /* whether its claim is among those of its parent */
};
enum { PARENT, TAKEN };

/* A tensor: objects are Python's facts, its lease, and the uses of its memory. */
struct described {
    struct fields base;
    char usable;
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
    if (!PyObject_TypeCheck(value, core->described_type) || !copy_facts(core, tensor))
        return declined();
    size_t rank = (size_t)tensor->facts.rank;
    if (2 * rank > count)
        return DECLINED;
    *facts = tensor->facts;
    memcpy(room, tensor->layout, 2 * rank * sizeof *room);
    facts->extents = room;
    facts->strides = room + rank;
    return DONE;
}

/* Leases ----------------------------------------------------------------------------------------------------------------------------- */

/* Whether no claim is in the way of a use: none at all for writing, none that writes for reading. A claim is a tuple of Python's, whose
 * second item says whether it writes. */
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

/* Whether nothing that was taken of a lease is in the way, and it holds its claim, as all do that it comes from. */
static bool is_free(const struct core *core, PyObject *object, bool write)
{
    bool leaf = true;
    while (object != NULL && PyObject_TypeCheck(object, core->lease_type)) {
        const struct lease *lease = (const struct lease *)object;
        if (leaf && !is_unclaimed(lease->base.objects[TAKEN], write))
            return false;
        leaf = false;
        object = lease->base.objects[PARENT];
        if (object == NULL || object == Py_None)
            return true; /* the memory's own */
        if (!lease->held)
            return false;
    }
    return false;
}

/* Stream order ----------------------------------------------------------------------------------------------------------------------- */

static bool is_line(const struct core *core, PyObject *object, CUstream stream, int device)
{
    if (object == NULL || !PyObject_TypeCheck(object, core->line_type))
        return false;
    const struct line *line = (const struct line *)object;
    return line->open && line->handle == (unsigned long long)(uintptr_t)stream && line->ordinal == device;
}

/* Whether a read on this line was noted before, and has no mark: one more changes nothing. */
static bool is_reader(const struct core *core, PyObject *reads, CUstream stream, int device)
{
    PyObject *line, *mark;
    for (Py_ssize_t place = 0; PyDict_Next(reads, &place, &line, &mark);)
        if (mark == Py_None && is_line(core, line, stream, device))
            return true;
    return false;
}

/* Whether a use on this stream needs to wait for nothing, and to be noted nowhere. */
static bool is_in_order(const struct core *core, PyObject *object, bool write, CUstream stream, int device)
{
    if (object == NULL || !PyObject_TypeCheck(object, core->uses_type))
        return false;
    PyObject *const *uses = ((const struct uses *)object)->base.objects;
    if (uses[READS] == NULL || !PyDict_CheckExact(uses[READS]))
        return false;
    if (PyDict_GET_SIZE(uses[READS]) != 0)
        return !write && is_reader(core, uses[READS], stream, device);
    return (uses[MARK] == NULL || uses[MARK] == Py_None) && is_line(core, uses[WRITTEN], stream, device);
}

bool tensor_is_ready(struct core *core, PyObject *value, bool write, CUstream stream)
{
    const struct described *tensor = (const struct described *)value;
    if (!PyObject_TypeCheck(value, core->described_type) || !tensor->usable || !tensor->read || (write && tensor->facts.readonly))
        return false;
    return is_free(core, tensor->base.objects[LEASE], write) &&
           is_in_order(core, tensor->base.objects[USES], write, stream, tensor->facts.device);
}

void tensor_note(PyObject *value)
{
    ((struct uses *)((struct described *)value)->base.objects[USES])->count++;
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
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef uses_members[] = {
    OBJECT("written", WRITTEN),
    OBJECT("mark", MARK),
    OBJECT("reads", READS),
    {"count", T_LONGLONG, offsetof(struct uses, count), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef lease_members[] = {
    OBJECT("parent", PARENT),
    OBJECT("taken", TAKEN),
    {"held", T_BOOL, offsetof(struct lease, held), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef described_members[] = {
    OBJECT("_facts", FACTS),
    OBJECT("lease", LEASE),
    OBJECT("uses", USES),
    {"usable", T_BOOL, offsetof(struct described, usable), 0, NULL},
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
