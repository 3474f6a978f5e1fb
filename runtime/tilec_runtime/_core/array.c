#include "array.h"

#include <string.h>

#include "dlpack/dlpack.h"
#include "tensor.h"

/* Layouts ---------------------------------------------------------------------------------------------------------------------------- */

/* Write the strides of a contiguous array with these extents. Returns false if one overflows. */
static bool contiguous_strides(struct facts *facts)
{
    int64_t step = 1;
    for (int i = facts->rank - 1; i >= 0; i--) {
        facts->strides[i] = step;
        if (__builtin_mul_overflow(step, facts->extents[i] > 0 ? facts->extents[i] : 1, &step))
            return false;
    }
    facts->count = facts->empty ? 0 : step;
    facts->contiguous = true;
    return true;
}

/* Give dimensions of extent 1 the strides of a contiguous array (as `settled_stride` in layout.py). No access uses those strides. */
static bool settle_strides(struct facts *facts)
{
    if (facts->empty)
        return contiguous_strides(facts);
    int64_t step = 1;
    facts->count = 1;
    facts->contiguous = true;
    for (int i = facts->rank - 1; i >= 0; i--) {
        if (facts->extents[i] == 1)
            facts->strides[i] = step;
        int64_t stride = facts->strides[i];
        facts->contiguous = facts->contiguous && stride == facts->count;
        if (stride == INT64_MIN || __builtin_mul_overflow(stride < 0 ? -stride : stride, facts->extents[i], &step) ||
            __builtin_mul_overflow(facts->count, facts->extents[i], &facts->count))
            return false;
    }
    return true;
}

/* Find the offsets of the lowest and the highest element, relative to the first. Returns false if a number exceeds 64 bits. */
static bool reach_of(struct facts *facts, int64_t *low, int64_t *high)
{
    int64_t reach;
    for (int i = 0; i < facts->rank; i++) {
        facts->ahead = facts->ahead && facts->strides[i] >= 0;
        if (__builtin_mul_overflow(facts->extents[i] - 1, facts->strides[i], &reach) ||
            __builtin_add_overflow(reach, reach < 0 ? *low : *high, reach < 0 ? low : high))
            return false;
    }
    return true;
}

/* Find the bytes of an array, and the facts of its address and strides that are in the key. Returns false if a number exceeds 64 bits. */
static bool measure(const struct core *core, struct facts *facts)
{
    const struct dtype *dtype = &core->dtypes[facts->dtype];
    int64_t size = dtype->size, low = 0, high = 0;
    facts->sound = (facts->address & (size - 1)) == 0 && (facts->address != 0 || facts->empty);
    facts->ahead = true;
    facts->start = facts->end = facts->address;
    if (facts->empty)
        return true;
    if (facts->contiguous)
        high = facts->count - 1;
    else if (!reach_of(facts, &low, &high))
        return false;
    if (__builtin_mul_overflow(low, size, &low) || __builtin_add_overflow(high, 1, &high) || __builtin_mul_overflow(high, size, &high))
        return false;
    if (dtype->bits < 8) /* packed elements */
        high = high * dtype->bits / 8;
    return (dtype->bits >= 8 || facts->contiguous) && !__builtin_add_overflow(facts->address, low, &facts->start) && facts->start >= 0 &&
           !__builtin_add_overflow(facts->address, high, &facts->end);
}

/* Place extents and strides in the caller's room. Returns false if the rank is negative or too large. */
static bool place_layout(struct facts *facts, int64_t rank, int64_t *room, size_t count)
{
    if (rank < 0 || rank > MOST_RANK || 2 * (size_t)rank > count)
        return false;
    facts->rank = (int)rank;
    facts->extents = room;
    facts->strides = room + rank;
    return true;
}

/* DLPack's exchange API ---------------------------------------------------------------------------------------------------------------- */

/* Find a dtype. Returns false if tilec does not have it, or if it is packed. */
static bool exchange_dtype(const struct core *core, DLDataType found, int *dtype)
{
    if (found.lanes != 1 || found.code >= MOST_CODES || found.bits < 8 || found.bits > 128 || (found.bits & (found.bits - 1)) != 0)
        return false;
    *dtype = core->exchanged[found.code][__builtin_ctz(found.bits / 8)] - 1;
    return *dtype >= 0;
}

static bool exchange_device(DLDevice found, int *device)
{
    if (found.device_type == kDLCUDA)
        *device = found.device_id;
    else if (found.device_type == kDLCUDAManaged)
        *device = ON_ANY;
    else if (found.device_type == kDLCPU || found.device_type == kDLCUDAHost)
        *device = ON_CPU; /* no plan has this device, so Python's path reports the error */
    else
        return false;
    return found.device_type != kDLCUDA || found.device_id >= 0;
}

static bool exchange_address(const DLTensor *tensor, int64_t *address)
{
    uint64_t sum;
    if (__builtin_add_overflow((uint64_t)(uintptr_t)tensor->data, tensor->byte_offset, &sum))
        return false;
    *address = (int64_t)sum;
    return sum <= INT64_MAX;
}

/* Copy a library's description of its array. No Python code runs here, so its pointers stay valid. Returns false if it is malformed. */
static bool copy_tensor(const struct core *core, const DLTensor *tensor, int64_t *room, size_t count, struct facts *facts)
{
    if (!place_layout(facts, tensor->ndim, room, count) || (facts->rank > 0 && tensor->shape == NULL))
        return false;
    facts->empty = false;
    for (int i = 0; i < facts->rank; i++) {
        facts->extents[i] = tensor->shape[i];
        if (facts->extents[i] < 0)
            return false;
        facts->empty = facts->empty || facts->extents[i] == 0;
        if (tensor->strides != NULL)
            facts->strides[i] = tensor->strides[i];
    }
    if (!(tensor->strides != NULL ? settle_strides(facts) : contiguous_strides(facts)))
        return false;
    return exchange_dtype(core, tensor->dtype, &facts->dtype) && exchange_device(tensor->device, &facts->device) &&
           exchange_address(tensor, &facts->address) && measure(core, facts);
}

/* Whether a torch tensor is not lazily negated, which DLPack does not describe. Only floats can be: torch makes lazy negations of imaginary
 * parts. (A lazy conjugate is complex, and tilec has no complex dtype.) */
static bool is_resolved(PyObject *is_neg, PyObject *value, const DLTensor *tensor)
{
    if (tensor->dtype.code != kDLFloat)
        return true;
    PyObject *negated = PyObject_CallOneArg(is_neg, value);
    Py_XDECREF(negated);
    return negated == Py_False;
}

static enum outcome read_torch(
    const struct core *core, const struct reader *reader, PyObject *value, int64_t *room, size_t count, struct facts *facts)
{
    DLTensor tensor = {0};
    PyObject *is_neg = Py_NewRef(reader->is_neg); /* Python code that runs meanwhile may clear the readers */
    bool read = reader->api->dltensor_from_py_object_no_sync(value, &tensor) == 0 && !PyErr_Occurred() &&
                copy_tensor(core, &tensor, room, count, facts) && is_resolved(is_neg, value, &tensor);
    facts->readonly = false;
    Py_DECREF(is_neg);
    return read ? DONE : declined();
}

/* Read an array of another library, with its flags, which the cheaper call for torch leaves out. */
static enum outcome read_managed(
    const struct core *core, const DLPackExchangeAPI *api, PyObject *value, int64_t *room, size_t count, struct facts *facts)
{
    DLManagedTensorVersioned *managed = NULL;
    if (api->managed_tensor_from_py_object_no_sync(value, &managed) != 0 || managed == NULL)
        return declined();
    bool whole = managed->version.major == DLPACK_MAJOR_VERSION;
    if (whole) { /* for another major version, only the deleter may be used */
        whole = (managed->flags & DLPACK_FLAG_BITMASK_IS_COPIED) == 0 && copy_tensor(core, &managed->dl_tensor, room, count, facts);
        facts->readonly = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    }
    if (managed->deleter != NULL)
        managed->deleter(managed);
    if (!whole || PyErr_Occurred())
        return declined();
    if (facts->empty && facts->device != ON_CPU)
        facts->device = ON_ANY;
    return DONE;
}

/* Python's reader ----------------------------------------------------------------------------------------------------------------------- */

/* Copy a tuple of numbers. Returns false if it is not a tuple of this length, or with an exception. */
static bool copy_numbers(PyObject *numbers, int rank, int64_t *target)
{
    if (!PyTuple_Check(numbers) || PyTuple_GET_SIZE(numbers) != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        target[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, i));
        if (target[i] == -1 && PyErr_Occurred())
            return false;
    }
    return true;
}

static bool copy_layout(PyObject *shape, PyObject *stride, int64_t *room, size_t count, struct facts *facts)
{
    if (!place_layout(facts, PyTuple_GET_SIZE(shape), room, count) || !copy_numbers(shape, facts->rank, facts->extents) ||
        !copy_numbers(stride, facts->rank, facts->strides))
        return false;
    facts->empty = false;
    for (int i = 0; i < facts->rank; i++)
        facts->empty = facts->empty || facts->extents[i] == 0;
    return settle_strides(facts);
}

/* Copy the parts of facts that Python has read. Returns false if they are malformed, or with an exception. */
static bool copy_parts(const struct core *core, PyObject *parts, int64_t *room, size_t count, struct facts *facts)
{
    PyObject *shape, *stride, *dtype;
    long long address;
    int readonly;
    if (!PyTuple_Check(parts) || !PyArg_ParseTuple(parts, "LO!O!Uip", &address, &PyTuple_Type, &shape, &PyTuple_Type, &stride, &dtype,
                                     &facts->device, &readonly))
        return false;
    PyObject *number = PyDict_GetItemWithError(core->dtype_numbers, dtype);
    if (number == NULL || address < 0)
        return false;
    facts->address = address;
    facts->dtype = (int)PyLong_AsLong(number);
    facts->readonly = readonly;
    facts->owned = false;
    return copy_layout(shape, stride, room, count, facts) && measure(core, facts);
}

enum outcome array_copy(const struct core *core, PyObject *found, int64_t *room, size_t count, struct facts *facts)
{
    PyObject *parts = PyObject_GetAttrString(found, "native");
    bool copied = parts != NULL && copy_parts(core, parts, room, count, facts);
    Py_XDECREF(parts);
    return copied ? DONE : declined();
}

static enum outcome read_python(
    const struct core *core, PyObject *fallback, PyObject *value, int64_t *room, size_t count, struct facts *facts)
{
    PyObject *found = PyObject_CallOneArg(fallback, value);
    enum outcome outcome = found == NULL ? declined() : array_copy(core, found, room, count, facts);
    Py_XDECREF(found);
    return outcome;
}

/* Types --------------------------------------------------------------------------------------------------------------------------------- */

/* The exchange API in a type's own `__dict__`, of the major version that this file supports; NULL if there is none. */
static const DLPackExchangeAPI *exchange_api(PyTypeObject *type)
{
    PyObject *names = PyObject_GetAttrString((PyObject *)type, "__dict__");
    PyObject *capsule = names == NULL ? NULL : PyMapping_GetItemString(names, "__dlpack_c_exchange_api__");
    const DLPackExchangeAPIHeader *header = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule); /* the API lives as long as the process, by DLPack's rules */
    Py_XDECREF(names);
    while (header != NULL && header->version.major != DLPACK_MAJOR_VERSION)
        header = header->prev_api;
    return (const DLPackExchangeAPI *)header;
}

static bool is_parameter(PyTypeObject *type)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    bool found = module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "torch.nn.parameter") == 0 &&
                 strcmp(type->tp_name, "Parameter") == 0 && type->tp_base != NULL;
    Py_XDECREF(module);
    return found;
}

static void find_exchange(struct reader *reader, PyTypeObject *type)
{
    const DLPackExchangeAPI *api = exchange_api(is_parameter(type) ? type->tp_base : type);
    bool torch = reader->kind == BY_TORCH_EXCHANGE;
    if (api != NULL && torch && api->dltensor_from_py_object_no_sync != NULL)
        reader->is_neg = PyObject_GetAttrString((PyObject *)type, "is_neg");
    bool usable = torch ? reader->is_neg != NULL : api != NULL && api->managed_tensor_from_py_object_no_sync != NULL;
    reader->api = usable ? api : NULL;
    reader->kind = usable ? reader->kind : BY_PYTHON;
}

/* Let Python classify a type, once. */
static bool classify(const struct core *core, PyTypeObject *type, struct reader *reader)
{
    if (core->classify == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the launch core was not configured");
        return false;
    }
    PyObject *kind = PyObject_CallOneArg(core->classify, (PyObject *)type);
    *reader = (struct reader){.type = type, .kind = kind == NULL ? -1 : (int)PyLong_AsLong(kind)};
    Py_XDECREF(kind);
    if (reader->kind == -1)
        return false;
    if (reader->kind == BY_OWNER && !PyType_IsSubtype(type, core->described_type))
        reader->kind = BY_PYTHON;
    if (reader->kind == BY_TORCH_EXCHANGE || reader->kind == BY_EXCHANGE)
        find_exchange(reader, type);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return false;
    PyErr_Clear(); /* a type without the API, which Python reads */
    return true;
}

/* The reader of a type, classified at its first use. Returns NULL with an exception. */
static const struct reader *reader_of(struct core *core, PyTypeObject *type)
{
    for (size_t i = 0; i < core->reader_count; i++)
        if (core->readers[i].type == type)
            return &core->readers[i];
    struct reader found;
    if (!classify(core, type, &found))
        return NULL;
    if (core->reader_count == MOST_READERS)
        array_clear(core);
    Py_INCREF(type);
    core->readers[core->reader_count] = found;
    return &core->readers[core->reader_count++];
}

void array_clear(struct core *core)
{
    while (core->reader_count > 0) {
        struct reader *reader = &core->readers[--core->reader_count];
        Py_CLEAR(reader->is_neg);
        Py_CLEAR(reader->type);
    }
}

enum outcome array_read(struct core *core, PyObject *value, PyObject *fallback, int64_t *room, size_t count, struct facts *facts)
{
    const struct reader *reader = reader_of(core, Py_TYPE(value));
    if (reader == NULL)
        return declined();
    facts->owned = reader->kind == BY_OWNER;
    switch (reader->kind) {
    case BY_TORCH_EXCHANGE:
        return read_torch(core, reader, value, room, count, facts);
    case BY_EXCHANGE:
        return read_managed(core, reader->api, value, room, count, facts);
    case BY_LAUNCHER:
        return DECLINED;
    case BY_OWNER:
        return tensor_read(core, value, room, count, facts);
    default:
        return read_python(core, fallback, value, room, count, facts);
    }
}

enum streams array_stream(struct core *core, PyObject *value, int device, CUstream *stream)
{
    const struct reader *reader = reader_of(core, Py_TYPE(value));
    if (reader == NULL) {
        PyErr_Clear();
        return STREAMS_OF_PYTHON;
    }
    if (reader->kind == BY_OWNER)
        return NO_STREAMS;
    if (reader->kind != BY_TORCH_EXCHANGE || reader->api->current_work_stream == NULL || device < 0)
        return STREAMS_OF_PYTHON;
    if (reader->api->current_work_stream(kDLCUDA, device, stream) == 0 && !PyErr_Occurred())
        return CURRENT_STREAM;
    PyErr_Clear();
    return STREAMS_OF_PYTHON;
}
