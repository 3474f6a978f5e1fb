#include "table.h"

#include "cache.h"
#include "tensor.h"

/* The launches of one launcher. */
struct table {
    PyObject_HEAD
    struct core *core;
    PyObject *module;     /* owns `core` */
    PyObject *read;       /* Python's reader of arrays: (array) -> TensorFacts */
    PyObject *recordings; /* a dict that is empty while tilec captures no stream */
    PyObject *lines;      /* a dict of the lines of the device's streams by handle */
    PyObject *launcher;   /* a test double, called instead of the driver; NULL for the driver itself */
    struct place place;
    struct signature signature;
    bool written[MOST_TENSORS]; /* whether the kernel writes each of the signature's tensors */
    struct cache cache;
};

/* Launch ----------------------------------------------------------------------------------------------------------------------------- */

static void shape_launch(const struct plan *plan, const struct call *call, CUstream stream, struct launch *launch)
{
    for (int i = 0; i < 3; i++) {
        launch->config.grid[i] = (uint32_t)program_output(&plan->program, call->numbers, (size_t)(OUTPUT_GRID + i));
        launch->config.block[i] = (uint32_t)program_output(&plan->program, call->numbers, (size_t)(OUTPUT_BLOCK + i));
    }
    launch->config.shared = (uint32_t)program_output(&plan->program, call->numbers, OUTPUT_SHARED);
    launch->config.stream = stream;
    launch_attributes(launch, plan->cluster, plan->cooperative, plan->programmatic);
}

/* Enqueue through the driver. Returns True, the driver's result of a failure, or NULL with an exception. */
static PyObject *launch_natively(
    const struct table *table, const struct call *call, const struct plan *plan, CUstream stream, struct prepared *prepared)
{
    struct launch launch = {
        .function = plan->function, .place = table->place, .parameters = prepared->parameters};
    shape_launch(plan, call, stream, &launch);
    CUresult result;
    Py_BEGIN_ALLOW_THREADS /* the driver blocks if the device's queue is full */
    result = driver_launch(&table->core->driver, &launch);
    Py_END_ALLOW_THREADS
    return result == CUDA_SUCCESS ? Py_NewRef(Py_True) : PyLong_FromLong(result);
}

/* Let a test double launch. */
static PyObject *launch_double(
    const struct table *table, const struct call *call, const struct plan *plan, CUstream stream, struct prepared *prepared)
{
    long long of[SHAPE_OUTPUTS];
    for (size_t i = 0; i < SHAPE_OUTPUTS; i++)
        of[i] = program_output(&plan->program, call->numbers, i);
    PyObject *result = PyObject_CallFunction(table->launcher, "O(LLL)(LLL)LNN", plan->source, of[0], of[1], of[2], of[3], of[4], of[5],
        of[OUTPUT_SHARED], PyLong_FromVoidPtr(stream), PyLong_FromVoidPtr(prepared->parameters));
    int failed = result == NULL ? -1 : PyObject_IsTrue(result);
    if (failed == 0)
        Py_SETREF(result, Py_NewRef(Py_True));
    if (failed < 0)
        Py_CLEAR(result);
    return result;
}

static PyObject *launch_prepared(
    const struct table *table, const struct call *call, const struct plan *plan, CUstream stream, struct prepared *prepared)
{
    if (!plan->launches)
        return Py_NewRef(Py_True);
    if (table->launcher != NULL)
        return launch_double(table, call, plan, stream, prepared);
    return launch_natively(table, call, plan, stream, prepared);
}

static PyObject *outcome_value(enum outcome outcome)
{
    return outcome == RAISED ? NULL : Py_NewRef(Py_None);
}

/* The call's tensor at an index if it is tilec's own, else NULL. */
static PyObject *own_tensor(const struct table *table, const struct call *call, size_t index)
{
    return call->owned[index] ? call->values[table->signature.tensors[index]] : NULL;
}

/* Whether all of tilec's own tensors are unclaimed (or claimed by the caller), and need no wait on the line. Runs no Python. */
static bool can_use(const struct table *table, const struct call *call, bool claimed, PyObject *line)
{
    for (size_t i = 0; i < table->signature.tensor_count; i++) {
        PyObject *value = own_tensor(table, call, i);
        bool write = table->written[i];
        if (value != NULL && !((claimed || tensor_is_free(table->core, value, write)) && tensor_is_in_order(table->core, value, write, line)))
            return false;
    }
    return true;
}

/* Find the line of a launch, a new reference: the caller's line, the value of the caller's `order` function, or the line of the stream. None
 * if no use is to be recorded. The `order` function makes the stream wait, so it is called last before the driver. */
static enum outcome find_line(
    const struct table *table, const struct call *call, const struct stream *stream, PyObject *order, PyObject **line)
{
    bool claimed = order != NULL && is_kind(order, table->core->line_type);
    if (order != NULL && !claimed) {
        *line = PyObject_CallNoArgs(order);
        return *line == NULL ? RAISED : DONE;
    }
    *line = claimed ? Py_NewRef(order) : call->any_owned ? line_find(table->core, table->lines, stream) : Py_NewRef(Py_None);
    if (*line == NULL)
        return declined();
    if (!call->any_owned || can_use(table, call, claimed, *line))
        return DONE;
    Py_CLEAR(*line);
    return DECLINED;
}

/* Record the uses of a launch. */
static bool note_uses(const struct table *table, const struct call *call, PyObject *line)
{
    if (line == Py_None)
        return true;
    for (size_t i = 0; i < table->signature.tensor_count; i++) {
        PyObject *value = own_tensor(table, call, i);
        if (value != NULL && !tensor_note(value, table->written[i], line))
            return false;
    }
    return true;
}

/* Enqueue a prepared launch, and record its uses on a line. */
static PyObject *launch_on(
    const struct table *table, const struct call *call, const struct plan *plan, const struct stream *stream, struct prepared *prepared,
    PyObject *order)
{
    PyObject *line = NULL;
    enum outcome outcome = find_line(table, call, stream, order, &line);
    if (outcome != DONE)
        return outcome_value(outcome);
    PyObject *result = launch_prepared(table, call, plan, stream->handle, prepared);
    if (result == Py_True && !note_uses(table, call, line))
        Py_CLEAR(result);
    Py_DECREF(line);
    return result;
}

/* Launch a call that was read. */
static PyObject *launch_call(struct table *table, struct call *call, const struct stream *stream, PyObject *order)
{
    struct prepared prepared;
    struct plan *plan = cache_find(&table->cache, call);
    if (plan == NULL)
        return Py_NewRef(Py_False);
    /* `plan` is a new reference, because another thread may evict the plan while Python runs or the driver waits. */
    enum outcome outcome = plan_fill(plan, table->core, call, &prepared);
    PyObject *result = outcome == DONE ? launch_on(table, call, plan, stream, &prepared, order) : outcome_value(outcome);
    Py_DECREF(plan);
    return result;
}

PyObject *table_try(PyObject *object, PyObject *stream, PyObject *const *values, size_t count, PyObject *order)
{
    struct table *table = (struct table *)object;
    /* While a stream is captured, only Python's `order` records the uses of a launch for the graph. */
    bool noted = (order != NULL && PyCallable_Check(order)) || PyDict_GET_SIZE(table->recordings) == 0;
    if (!noted || count != table->signature.parameters)
        return outcome_value(DECLINED);
    struct stream taken = {0};
    struct call call;
    enum outcome outcome = stream == Py_None ? DONE : stream_handle(table->core, stream, &taken);
    if (outcome == DONE)
        outcome = call_read(table->core, &table->signature, values, table->read, NULL, &call);
    if (outcome == DONE && stream == Py_None)
        outcome = call_stream(table->core, &table->signature, &call, &taken);
    PyObject *result = outcome == DONE ? launch_call(table, &call, &taken, order) : outcome_value(outcome);
    Py_XDECREF(taken.number);
    return result;
}

PyDoc_STRVAR(launch_doc,
    "launch(stream, values, order=None, /)\n--\n\n"
    "Enqueue a call whose plan is cached.\n\n"
    "`order` is not needed if tilec's own tensors are unclaimed and their uses on other streams are known to be complete. A caller that holds\n"
    "their leases passes the line of the stream. In all other cases the caller checks the leases and passes a function. It is called right\n"
    "before the driver, makes the stream wait, and returns the stream's line, or None if no use is to be recorded.\n\n"
    "Returns True for a launch, False for a miss, None for a call that only Python's path launches, or the driver's result if it refused the\n"
    "launch. Only True means that the launch was enqueued.");

static PyObject *table_launch(PyObject *table, PyObject *const *args, Py_ssize_t count)
{
    if ((count != 2 && count != 3) || !PyTuple_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "launch takes a stream, a tuple of values, and what orders the stream");
        return NULL;
    }
    PyObject *const *values = PySequence_Fast_ITEMS(args[1]);
    return table_try(table, args[0], values, (size_t)PyTuple_GET_SIZE(args[1]), count == 3 ? args[2] : NULL);
}

/* Plans ------------------------------------------------------------------------------------------------------------------------------ */

/* The types of the arguments that are not tensors. Their addresses are in the key. */
static PyObject *types_of(const struct signature *signature, PyObject *const *values)
{
    PyObject *types = PyTuple_New((Py_ssize_t)signature->other_count);
    for (size_t i = 0; types != NULL && i < signature->other_count; i++)
        PyTuple_SET_ITEM(types, (Py_ssize_t)i, Py_NewRef(Py_TYPE(values[signature->others[i]])));
    return types;
}

static bool add_plan(struct table *table, const struct call *call, PyObject *source)
{
    struct plan *plan = plan_new(table->core, source, &table->signature, call, table->launcher == NULL);
    PyObject *types = plan == NULL ? NULL : types_of(&table->signature, call->values);
    bool added = types != NULL && cache_add(&table->cache, call, types, plan);
    Py_XDECREF(types);
    Py_XDECREF(plan);
    return added;
}

PyDoc_STRVAR(add_doc,
    "add(values, plan, tensors=..., /)\n--\n\n"
    "Cache Python's plan of a call with these facts of its tensors; return whether later calls can hit it.\n\n"
    "Raises ValueError if the plan is malformed or beyond the core's limits.");

static PyObject *table_add(struct table *table, PyObject *args)
{
    PyObject *values, *source, *tensors = NULL;
    if (!PyArg_ParseTuple(args, "O!O|O!:add", &PyTuple_Type, &values, &source, &PyTuple_Type, &tensors))
        return NULL;
    const struct signature *signature = &table->signature;
    if ((size_t)PyTuple_GET_SIZE(values) != signature->parameters ||
        (tensors != NULL && (size_t)PyTuple_GET_SIZE(tensors) != signature->tensor_count))
        return Py_NewRef(Py_False);
    struct call call;
    PyObject *const *given = tensors == NULL ? NULL : PySequence_Fast_ITEMS(tensors);
    enum outcome outcome = call_read(table->core, signature, PySequence_Fast_ITEMS(values), table->read, given, &call);
    if (outcome != DONE)
        return outcome == RAISED ? NULL : Py_NewRef(Py_False);
    return add_plan(table, &call, source) ? Py_NewRef(Py_True) : NULL;
}

/* The type --------------------------------------------------------------------------------------------------------------------------- */

/* Set the target of launches: a test double, or the handle of the device's context, for which the driver is opened. */
static bool read_target(struct table *table, PyObject *target)
{
    if (PyCallable_Check(target)) {
        table->launcher = Py_NewRef(target);
        return true;
    }
    table->place.context = PyLong_AsVoidPtr(target);
    return !PyErr_Occurred() && driver_open(&table->core->driver);
}

/* Set which tensors the kernel writes. */
static bool read_outs(struct table *table, PyObject *outs)
{
    for (size_t i = 0; i < table->signature.tensor_count; i++) {
        PyObject *place = PyLong_FromSize_t(table->signature.tensors[i]);
        int written = place == NULL ? -1 : PySequence_Contains(outs, place);
        Py_XDECREF(place);
        if (written < 0)
            return false;
        table->written[i] = written != 0;
    }
    return true;
}

static bool table_read(struct table *table, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"parameters", "tensors", "others", "keyed", "read", "recordings", "lines", "target", "adopts", "outs", NULL};
    PyObject *tensors, *others, *keyed, *read, *recordings, *lines, *target, *outs;
    Py_ssize_t parameters;
    int adopts;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$nOOOOO!O!OpO:Table", names, &parameters, &tensors, &others, &keyed, &read, &PyDict_Type,
            &recordings, &PyDict_Type, &lines, &target, &adopts, &outs))
        return false;
    table->read = Py_NewRef(read);
    table->recordings = Py_NewRef(recordings);
    table->lines = Py_NewRef(lines);
    table->place.adopts = adopts != 0;
    return signature_read(&table->signature, parameters, tensors, others, keyed) && read_outs(table, outs) && read_target(table, target);
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct table *table = (struct table *)type->tp_alloc(type, 0);
    if (table == NULL)
        return NULL;
    table->module = Py_NewRef(PyType_GetModule(type));
    table->core = core_of(table->module);
    if (table_read(table, args, kwargs))
        return (PyObject *)table;
    Py_DECREF(table);
    return NULL;
}

static int table_traverse(struct table *table, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(table));
    Py_VISIT(table->module);
    Py_VISIT(table->read);
    Py_VISIT(table->recordings);
    Py_VISIT(table->lines);
    Py_VISIT(table->launcher);
    return cache_traverse(&table->cache, visit, arg);
}

/* The callables are kept until deallocation, because a launch may be running one of them. */
static int table_clear(struct table *table)
{
    cache_clear(&table->cache);
    return 0;
}

static void table_dealloc(struct table *table)
{
    PyTypeObject *type = Py_TYPE(table);
    PyObject_GC_UnTrack(table);
    cache_clear(&table->cache);
    Py_CLEAR(table->read);
    Py_CLEAR(table->recordings);
    Py_CLEAR(table->lines);
    Py_CLEAR(table->launcher);
    Py_CLEAR(table->module);
    type->tp_free(table);
    Py_DECREF(type);
}

bool table_check(PyObject *object)
{
    return Py_TYPE(object)->tp_dealloc == (destructor)table_dealloc; /* the type has no subclasses */
}

static PyMethodDef table_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))table_launch, METH_FASTCALL, launch_doc},
    {"add", (PyCFunction)table_add, METH_VARARGS, add_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_doc, "The cached plans of one launcher, and their launches."},
    {Py_tp_new, table_new},
    {Py_tp_traverse, table_traverse},
    {Py_tp_clear, table_clear},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {0, NULL},
};

PyType_Spec table_spec = {
    .name = "tilec_runtime._core.Table",
    .basicsize = sizeof(struct table),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = table_slots,
};
