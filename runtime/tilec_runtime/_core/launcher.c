#include "launcher.h"

#include <stddef.h>
#include <structmember.h>

#include "table.h"

/* The part of a launcher in C. The rest is in Python (`Launcher` in runtime/tilec_runtime/launch/launcher.py), which also makes calls that miss. */
struct launcher {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *table; /* a table; NULL or None before the first launch, and if Python makes all launches */
};

/* Launch ----------------------------------------------------------------------------------------------------------------------------- */

/* Let Python handle a launch that the driver refused. */
static PyObject *refused(struct launcher *self, PyObject *result, PyObject *stream, PyObject *const *values, size_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple != NULL && i < count; i++)
        PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, Py_NewRef(values[i]));
    PyObject *done = tuple == NULL ? NULL : PyObject_CallMethod((PyObject *)self, "_refused", "OOO", result, stream, tuple);
    Py_XDECREF(tuple);
    return done;
}

/* Launch a call whose plan is cached. Returns None, False if Python has to launch it, or NULL with an exception. */
static PyObject *try_launch(struct launcher *self, PyObject *stream, PyObject *const *values, size_t count)
{
    if (self->table == NULL || !table_check(self->table))
        return Py_NewRef(Py_False);
    PyObject *table = Py_NewRef(self->table), *done; /* Python code that runs meanwhile may replace the table */
    PyObject *answer = table_try(table, stream, values, count, NULL);
    Py_DECREF(table);
    if (answer == NULL || answer == Py_False)
        return answer;
    if (answer == Py_True)
        done = Py_NewRef(Py_None);
    else
        done = answer == Py_None ? Py_NewRef(Py_False) : refused(self, answer, stream, values, count);
    Py_DECREF(answer);
    return done;
}

/* Call a method in Python with the same arguments. */
static PyObject *call_python(struct launcher *self, const char *name, PyObject *const *args, size_t count, PyObject *names)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)self, name);
    PyObject *done = method == NULL ? NULL : PyObject_Vectorcall(method, args, count, names);
    Py_XDECREF(method);
    return done;
}

/* Whether `stream` is the only keyword argument of a call. */
static bool names_stream(PyObject *names)
{
    return PyTuple_GET_SIZE(names) == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "stream") == 0;
}

static PyObject *launcher_call(struct launcher *self, PyObject *const *args, size_t flags, PyObject *names)
{
    size_t count = (size_t)PyVectorcall_NARGS(flags);
    if (names == NULL || PyTuple_GET_SIZE(names) == 0 || names_stream(names)) {
        bool named = names != NULL && PyTuple_GET_SIZE(names) == 1;
        PyObject *done = try_launch(self, named ? args[count] : Py_None, args, count);
        if (done != Py_False)
            return done;
        Py_DECREF(done);
    }
    return call_python(self, "_call", args, count, names);
}

PyDoc_STRVAR(launch_doc,
    "launch(stream, values, choices=(), /)\n--\n\n"
    "Check the arguments and enqueue the kernel; generated code calls this.");

static PyObject *launcher_launch(struct launcher *self, PyObject *const *args, Py_ssize_t count)
{
    bool chosen = count == 3 && PyTuple_CheckExact(args[2]) && PyTuple_GET_SIZE(args[2]) != 0;
    if ((count == 2 || count == 3) && !chosen && PyTuple_CheckExact(args[1])) {
        PyObject *done = try_launch(self, args[0], PySequence_Fast_ITEMS(args[1]), (size_t)PyTuple_GET_SIZE(args[1]));
        if (done != Py_False)
            return done;
        Py_DECREF(done);
    }
    return call_python(self, "_launch", args, (size_t)count, NULL);
}

/* The type --------------------------------------------------------------------------------------------------------------------------- */

static PyObject *launcher_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    struct launcher *self = (struct launcher *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->call = (vectorcallfunc)(void (*)(void))launcher_call;
    return (PyObject *)self;
}

static int launcher_traverse(struct launcher *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->table);
    return 0;
}

static int launcher_clear(struct launcher *self)
{
    Py_CLEAR(self->table);
    return 0;
}

static void launcher_dealloc(struct launcher *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    launcher_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef launcher_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))launcher_launch, METH_FASTCALL, launch_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct launcher, call), READONLY, NULL},
    {"_table", T_OBJECT, offsetof(struct launcher, table), 0, "The cached plans; None where there are none."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot launcher_slots[] = {
    {Py_tp_doc, "The part of a launcher that is in C: calls whose plan is cached."},
    {Py_tp_new, launcher_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, launcher_traverse},
    {Py_tp_clear, launcher_clear},
    {Py_tp_dealloc, launcher_dealloc},
    {Py_tp_methods, launcher_methods},
    {Py_tp_members, launcher_members},
    {0, NULL},
};

PyType_Spec launcher_spec = {
    .name = "tilec_runtime._core.Launcher",
    .basicsize = sizeof(struct launcher),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = launcher_slots,
};
