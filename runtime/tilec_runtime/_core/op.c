#include "op.h"

#include <stddef.h>
#include <structmember.h>

/* The part of an op in C. The rest is in Python (`Op` in runtime/tilec_runtime/ops/base.py). */
struct op {
    PyObject_HEAD
    PyObject *gone; /* a string that tells how it was used up; NULL or None before */
};

PyDoc_STRVAR(take_doc,
    "_take(where, /)\n--\n\n"
    "Use the op up. Of several threads that try at the same time, one succeeds.\n\n"
    "where: the op's new owner, for messages. Raises UsedOpError if the op was used before.");

static PyObject *op_take(struct op *self, PyObject *where)
{
    if (self->gone == NULL || self->gone == Py_None) {
        Py_XSETREF(self->gone, Py_NewRef(where));
        Py_RETURN_NONE;
    }
    PyObject *error = PyObject_CallMethod((PyObject *)self, "_used", NULL);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

static int op_traverse(struct op *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->gone);
    return 0;
}

static int op_clear(struct op *self)
{
    Py_CLEAR(self->gone);
    return 0;
}

static void op_dealloc(struct op *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    op_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef op_methods[] = {
    {"_take", (PyCFunction)op_take, METH_O, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef op_members[] = {
    {"_gone", T_OBJECT, offsetof(struct op, gone), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot op_slots[] = {
    {Py_tp_doc, "The part of an op that is in C: it is used once."},
    {Py_tp_traverse, op_traverse},
    {Py_tp_clear, op_clear},
    {Py_tp_dealloc, op_dealloc},
    {Py_tp_methods, op_methods},
    {Py_tp_members, op_members},
    {0, NULL},
};

PyType_Spec op_spec = {
    .name = "tilec_runtime._core.Op",
    .basicsize = sizeof(struct op),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = op_slots,
};
