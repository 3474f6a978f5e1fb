#include "claims.h"

#include "tensor.h"

/* Whether an argument needs neither a claim nor to be kept alive. */
static bool is_plain(PyObject *value)
{
    return value == Py_None || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value);
}

/* Give up the claims on the first `count` values. Returns false with an exception. */
static bool release(const struct core *core, PyObject *values, Py_ssize_t count, PyObject *number)
{
    bool done = true;
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyObject_TypeCheck(PyTuple_GET_ITEM(values, i), core->described_type))
            done = tensor_release(core, PyTuple_GET_ITEM(values, i), number) && done;
    return done;
}

static enum outcome claim_one(struct core *core, PyObject *value, bool write, PyObject *number, PyObject *reads, PyObject *moves)
{
    if (PyObject_TypeCheck(value, core->described_type))
        return tensor_claim(core, value, write, number, reads, moves);
    return is_plain(value) ? DONE : DECLINED;
}

PyDoc_STRVAR(claim_doc,
    "claim(values, outs, number, reads, moves, /)\n--\n\n"
    "Claim all arguments of an op, or none; return whether they were claimed. Owned tensors move in, shared ones are read.\n\n"
    "Return False for arguments that only Python claims (ops, borrows, arrays of other libraries), and for a conflict, which Python reports.\n\n"
    "values: a tuple of arguments. outs: a tuple of the places that the op writes, in order. number: the number of the claims.\n"
    "reads, moves: the claims.");

static PyObject *claim(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyTuple_CheckExact(args[0]) || !PyTuple_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "claim takes a tuple of values, a tuple of places, a number and two claims");
    struct core *core = core_of(module);
    PyObject *values = args[0], *outs = args[1];
    Py_ssize_t out = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); i++) {
        bool write = out < PyTuple_GET_SIZE(outs) && PyLong_AsSsize_t(PyTuple_GET_ITEM(outs, out)) == i;
        out += write;
        enum outcome outcome = claim_one(core, PyTuple_GET_ITEM(values, i), write, args[2], args[3], args[4]);
        if (outcome == DONE)
            continue;
        if (outcome == DECLINED)
            return release(core, values, i, args[2]) ? Py_NewRef(Py_False) : NULL;
        return NULL;
    }
    return Py_NewRef(Py_True);
}

PyDoc_STRVAR(usable_doc,
    "are_usable(values, /)\n--\n\n"
    "Return whether all tensors of an op are usable: none was dropped after it was claimed.");

static PyObject *are_usable(PyObject *module, PyObject *values)
{
    if (!PyTuple_CheckExact(values))
        return PyErr_Format(PyExc_TypeError, "are_usable takes a tuple of values");
    const struct core *core = core_of(module);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        if (PyObject_TypeCheck(value, core->described_type) && !tensor_is_usable(value))
            return Py_NewRef(Py_False);
    }
    return Py_NewRef(Py_True);
}

PyDoc_STRVAR(release_doc,
    "release(values, number, /)\n--\n\n"
    "Give up the claims that `claim` took under a number.");

static PyObject *release_all(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_CheckExact(args[0]))
        return PyErr_Format(PyExc_TypeError, "release takes a tuple of values and a number");
    return release(core_of(module), args[0], PyTuple_GET_SIZE(args[0]), args[1]) ? Py_NewRef(Py_None) : NULL;
}

PyDoc_STRVAR(last_doc,
    "are_last(uses, line, /)\n--\n\n"
    "Return whether a replay on a line needs no wait and no record: its memory is unclaimed, and its last uses are replays on this line.\n\n"
    "uses: a tuple of (lease, uses, whether it is written).");

static PyObject *are_last(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_CheckExact(args[0]) || !PyObject_TypeCheck(args[1], core_of(module)->line_type))
        return PyErr_Format(PyExc_TypeError, "are_last takes a tuple of uses and a line");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); i++) {
        PyObject *use = PyTuple_GET_ITEM(args[0], i);
        if (!PyTuple_CheckExact(use) || PyTuple_GET_SIZE(use) != 3)
            return PyErr_Format(PyExc_TypeError, "a use is a lease, the uses of memory, and whether it is written");
        bool write = PyTuple_GET_ITEM(use, 2) == Py_True;
        if (!uses_last(core_of(module), PyTuple_GET_ITEM(use, 0), PyTuple_GET_ITEM(use, 1), write, args[1]))
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    }
    return Py_NewRef(Py_True);
}

PyMethodDef claims_methods[] = {
    {"are_last", (PyCFunction)(void (*)(void))are_last, METH_FASTCALL, last_doc},
    {"claim", (PyCFunction)(void (*)(void))claim, METH_FASTCALL, claim_doc},
    {"are_usable", are_usable, METH_O, usable_doc},
    {"release", (PyCFunction)(void (*)(void))release_all, METH_FASTCALL, release_doc},
    {NULL, NULL, 0, NULL},
};
