/* The extension module `tilec_runtime._core`: launches on the fast path. README.md follows one launch through it. */
#include "array.h"
#include "claims.h"
#include "launcher.h"
#include "op.h"
#include "plan.h"
#include "table.h"
#include "tensor.h"

#include <string.h>

/* State ------------------------------------------------------------------------------------------------------------------------------ */

struct core *core_of(PyObject *module)
{
    return PyModule_GetState(module);
}

enum outcome declined(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return RAISED;
    PyErr_Clear();
    return DECLINED;
}

static bool read_dtype(struct core *core, PyObject *row, PyObject *numbers)
{
    const char *name;
    struct dtype dtype;
    if (core->dtype_count == MOST_DTYPES || !PyArg_ParseTuple(row, "sbb", &name, &dtype.code, &dtype.bits))
        return false;
    if (dtype.bits > 128 || (dtype.bits >= 8 && (dtype.bits & (dtype.bits - 1)) != 0)) {
        PyErr_Format(PyExc_ValueError, "elements of %s are no power of two of bytes", name);
        return false;
    }
    PyObject *number = PyLong_FromSize_t(core->dtype_count);
    dtype.size = dtype.bits < 8 ? 1 : dtype.bits / 8;
    if (dtype.bits >= 8 && dtype.code < MOST_CODES)
        core->exchanged[dtype.code][__builtin_ctz(dtype.size)] = (uint8_t)(core->dtype_count + 1);
    core->dtypes[core->dtype_count++] = dtype;
    bool set = number != NULL && PyDict_SetItemString(numbers, name, number) == 0;
    Py_XDECREF(number);
    return set;
}

static bool read_dtypes(struct core *core, PyObject *rows)
{
    core->dtype_count = 0;
    memset(core->exchanged, 0, sizeof core->exchanged);
    Py_XSETREF(core->dtype_numbers, PyDict_New());
    if (core->dtype_numbers == NULL)
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i++)
        if (!read_dtype(core, PyTuple_GET_ITEM(rows, i), core->dtype_numbers))
            return false;
    return true;
}

/* Functions -------------------------------------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(configure_doc,
    "configure(dtypes, classify, encode, stream_attribute, stream_handle, current_stream, /)\n--\n\n"
    "Set the dtypes and Python's functions. Call it once, before the first table.\n\n"
    "dtypes: (name, DLPack code, bits) of each dtype. classify: returns how to read arrays of a type. encode: encodes a value.\n"
    "stream_attribute: returns the attribute with the handle for a type of streams. stream_handle: returns the handle of a stream.\n"
    "current_stream: returns the current stream for the values of a call.");

static PyObject *configure(PyObject *module, PyObject *args)
{
    struct core *core = core_of(module);
    PyObject *dtypes, *given[5];
    if (!PyArg_ParseTuple(args, "O!OOOOO:configure", &PyTuple_Type, &dtypes, &given[0], &given[1], &given[2], &given[3], &given[4]) ||
        !read_dtypes(core, dtypes))
        return NULL;
    array_clear(core);
    PyObject **places[] = {&core->classify, &core->encode, &core->stream_attribute, &core->stream_handle, &core->current_stream};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        Py_XSETREF(*places[i], Py_NewRef(given[i]));
    Py_RETURN_NONE;
}

/* Make a tuple of numbers. Returns NULL with an exception. */
static PyObject *tuple_of(const int64_t *numbers, size_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (number == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, number);
    }
    return tuple;
}

PyDoc_STRVAR(facts_doc,
    "facts(value, read, /)\n--\n\n"
    "For tests: return the facts of an array as launches read them, or None if Python's path reads it.\n\n"
    "Returns (address, shape, stride, dtype's number, device, readonly, contiguous). `read` is Python's reader.");

static PyObject *facts(PyObject *module, PyObject *args)
{
    PyObject *value, *read;
    if (!PyArg_ParseTuple(args, "OO:facts", &value, &read))
        return NULL;
    int64_t room[2 * MOST_RANK];
    struct facts found;
    enum outcome outcome = array_read(core_of(module), value, read, room, 2 * MOST_RANK, &found);
    if (outcome != DONE)
        return outcome == RAISED ? NULL : Py_NewRef(Py_None);
    PyObject *shape = tuple_of(found.extents, (size_t)found.rank), *stride = tuple_of(found.strides, (size_t)found.rank);
    if (shape == NULL || stride == NULL) {
        Py_XDECREF(shape);
        Py_XDECREF(stride);
        return NULL;
    }
    return Py_BuildValue("LNNiiNN", (long long)found.address, shape, stride, found.dtype, found.device, PyBool_FromLong(found.readonly),
        PyBool_FromLong(found.contiguous));
}

static bool copy_slots(PyObject *sequence, int64_t *slots, Py_ssize_t *count)
{
    *count = PySequence_Size(sequence);
    for (Py_ssize_t i = 0; i < *count && i < MOST_SLOTS; i++) {
        PyObject *number = PySequence_GetItem(sequence, i);
        slots[i] = number == NULL ? -1 : PyLong_AsLongLong(number);
        Py_XDECREF(number);
    }
    return !PyErr_Occurred();
}

PyDoc_STRVAR(run_doc,
    "run(program, slots, /)\n--\n\n"
    "For tests: return the outputs of a plan's program as a tuple, or None if the plan does not apply.");

static PyObject *run(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *bytes, *sequence, *result = NULL;
    struct program program;
    int64_t numbers[MOST_NUMBERS], outputs[MOST_OUTPUTS];
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "OO:run", &bytes, &sequence) || !copy_slots(sequence, numbers, &count) || !program_read(&program, bytes))
        return NULL;
    if ((Py_ssize_t)program.slots > count)
        PyErr_SetString(PyExc_ValueError, "the program reads more slots than there are");
    else if (!program_run(&program, numbers))
        result = Py_NewRef(Py_None);
    else {
        for (size_t i = 0; i < program.outputs; i++)
            outputs[i] = program_output(&program, numbers, i);
        result = tuple_of(outputs, program.outputs);
    }
    program_free(&program);
    return result;
}

PyDoc_STRVAR(launch_graph_doc,
    "launch_graph(context, adopts, graph, stream, /)\n--\n\n"
    "Enqueue an executable graph in a device's context; return the driver's result. `adopts` is as for `Table`.\n\n"
    "Refuse a stream that is captured (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); the driver itself would capture the graph.");

static PyObject *launch_graph(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct driver *driver = &core_of(module)->driver;
    if (count != 4 || !driver_open(&core_of(module)->driver))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "launch_graph takes four arguments");
    struct place place = {.context = PyLong_AsVoidPtr(args[0]), .adopts = args[1] == Py_True};
    CUgraphExec graph = PyLong_AsVoidPtr(args[2]);
    CUstream stream = PyLong_AsVoidPtr(args[3]);
    if (PyErr_Occurred())
        return NULL;
    CUresult result;
    Py_BEGIN_ALLOW_THREADS /* the driver blocks if the device's queue is full */
    result = driver_launch_graph(driver, place, graph, stream);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result);
}

PyDoc_STRVAR(replace_doc,
    "replace_driver(addresses, /)\n--\n\n"
    "For tests: call these entry points instead of libcuda's. addresses: {name: address}.");

static PyObject *replace_driver(PyObject *module, PyObject *addresses)
{
    return driver_replace(&core_of(module)->driver, addresses) ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS, configure_doc},
    {"facts", facts, METH_VARARGS, facts_doc},
    {"run", run, METH_VARARGS, run_doc},
    {"launch_graph", (PyCFunction)(void (*)(void))launch_graph, METH_FASTCALL, launch_graph_doc},
    {"replace_driver", replace_driver, METH_O, replace_doc},
    {NULL, NULL, 0, NULL},
};

/* The module ------------------------------------------------------------------------------------------------------------------------- */

static int fill_module(PyObject *module)
{
    struct core *core = core_of(module);
    if (PyModule_AddFunctions(module, claims_methods) < 0 || PyModule_AddStringConstant(module, "sources", SOURCES) < 0)
        return -1;
    core->plan_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &plan_spec, NULL);
    core->table_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &table_spec, NULL);
    core->launcher_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &launcher_spec, NULL);
    if (!tensor_types(module, core) || core->plan_type == NULL || core->table_type == NULL || core->launcher_type == NULL)
        return -1;
    PyObject *op_type = PyType_FromModuleAndSpec(module, &op_spec, NULL);
    int added = op_type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)op_type);
    Py_XDECREF(op_type);
    if (added < 0 || PyModule_AddType(module, core->table_type) < 0)
        return -1;
    return PyModule_AddType(module, core->launcher_type);
}

/* The objects that the state owns, except the readers. */
#define OWNED(core) \
    { \
        (PyObject **)&(core)->plan_type, (PyObject **)&(core)->table_type, (PyObject **)&(core)->launcher_type, &(core)->classify, \
            &(core)->encode, &(core)->stream_attribute, &(core)->stream_handle, &(core)->current_stream, \
            (PyObject **)&(core)->stream_type, &(core)->stream_name, &(core)->dtype_numbers, (PyObject **)&(core)->line_type, \
            (PyObject **)&(core)->uses_type, (PyObject **)&(core)->lease_type, (PyObject **)&(core)->described_type \
    }

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct core *core = core_of(module);
    PyObject **owned[] = OWNED(core);
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        Py_VISIT(*owned[i]);
    for (size_t i = 0; i < core->reader_count; i++) {
        Py_VISIT(core->readers[i].type);
        Py_VISIT(core->readers[i].is_neg);
    }
    return 0;
}

/* There is no tp_clear, because a launch may be running one of the functions until the module is freed. */
static void module_free(void *module)
{
    struct core *core = core_of(module);
    PyObject **owned[] = OWNED(core);
    array_clear(core);
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        Py_CLEAR(*owned[i]);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "tilec_runtime._core",
    .m_doc = "Launches on the fast path, in C.",
    .m_size = sizeof(struct core),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&module_definition);
}
