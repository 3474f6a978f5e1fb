#include "plan.h"

#include <stddef.h>
#include <string.h>

#include "scalar.h"

/* Reading Python's plan ------------------------------------------------------------------------------------------------------------- */

static bool refuse(const char *reason)
{
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, reason);
    return false;
}

static bool no_memory(void)
{
    PyErr_NoMemory();
    return false;
}

static bool copy_template(struct plan *plan, PyObject *bytes)
{
    plan->block_size = (size_t)PyBytes_GET_SIZE(bytes);
    if (plan->block_size > MOST_BLOCK)
        return refuse("the argument block is larger than the launch core takes");
    plan->block = PyMem_Malloc(plan->block_size + 1); /* plus 1, because a kernel may have no arguments */
    if (plan->block != NULL)
        memcpy(plan->block, PyBytes_AS_STRING(bytes), plan->block_size);
    return plan->block != NULL || no_memory();
}

static bool copy_offsets(struct plan *plan, PyObject *offsets)
{
    plan->offset_count = (size_t)PyTuple_GET_SIZE(offsets);
    plan->offsets = PyMem_Calloc(plan->offset_count + 1, sizeof *plan->offsets);
    if (plan->offsets == NULL)
        return no_memory();
    for (size_t i = 0; i < plan->offset_count; i++) {
        size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(offsets, (Py_ssize_t)i));
        if (PyErr_Occurred() || offset > plan->block_size)
            return refuse("a kernel argument lies outside of the argument block");
        plan->offsets[i] = (uint32_t)offset;
    }
    return plan->offset_count <= MOST_ARGUMENTS || refuse("more kernel arguments than the launch core takes");
}

/* Whether a patch reads an existing source, and writes inside the block. */
static bool patch_is_sound(const struct plan *plan, const struct signature *signature, const struct patch *patch)
{
    size_t sources[] = {signature->tensor_count, plan->program.outputs, signature->parameters};
    if (patch->kind < PATCH_ADDRESS || patch->kind > PATCH_VALUE || patch->source >= sources[patch->kind])
        return false;
    if (PyUnicode_GET_LENGTH(patch->format) == 0 || (uint64_t)patch->offset + patch->size > plan->block_size)
        return false;
    size_t size = PyUnicode_GET_LENGTH(patch->format) == 1 ? scalar_size(patch->code) : 0;
    return patch->kind == PATCH_ADDRESS ? patch->size == sizeof(int64_t) : patch->kind == PATCH_VALUE || (size != 0 && size == patch->size);
}

static bool read_patch(
    struct plan *plan, const struct signature *signature, const struct call *call, PyObject *numbers, struct patch *patch)
{
    if (!PyTuple_Check(numbers) ||
        !PyArg_ParseTuple(numbers, "iIIIU", &patch->kind, &patch->source, &patch->offset, &patch->size, &patch->format)) {
        patch->format = NULL;
        return refuse("a patch of the plan is malformed");
    }
    Py_INCREF(patch->format);
    patch->code = PyUnicode_GET_LENGTH(patch->format) == 0 ? '\0' : (char)PyUnicode_READ_CHAR(patch->format, 0);
    if (!patch_is_sound(plan, signature, patch))
        return refuse("a patch of the plan reads or writes what there is not");
    if (patch->kind != PATCH_VALUE)
        patch->place = patch->kind == PATCH_ADDRESS ? call->tensor_slots[patch->source] : plan->program.places[patch->source];
    return true;
}

static bool copy_patches(struct plan *plan, const struct signature *signature, const struct call *call, PyObject *patches)
{
    size_t count = (size_t)PyTuple_GET_SIZE(patches);
    plan->patches = PyMem_Calloc(count + 1, sizeof *plan->patches);
    if (plan->patches == NULL)
        return no_memory();
    plan->patch_count = count; /* the format of a patch is NULL until it is read */
    for (size_t i = 0; i < count; i++)
        if (!read_patch(plan, signature, call, PyTuple_GET_ITEM(patches, (Py_ssize_t)i), &plan->patches[i]))
            return false;
    return true;
}

static bool copy_function(struct plan *plan, PyObject *function, bool natively)
{
    PyObject *handle = function == Py_None || !natively ? NULL : PyNumber_Long(function);
    plan->launches = function != Py_None;
    plan->function = handle == NULL ? NULL : PyLong_AsVoidPtr(handle);
    Py_XDECREF(handle);
    if (plan->launches && plan->program.outputs < SHAPE_OUTPUTS)
        return refuse("the plan's program gives no launch shape");
    return !PyErr_Occurred();
}

static bool copy_parts(struct plan *plan, PyObject *parts, const struct signature *signature, const struct call *call, bool natively)
{
    PyObject *program, *template, *offsets, *patches, *function;
    uint32_t *cluster = plan->cluster;
    if (!PyTuple_Check(parts))
        return refuse("the plan's parts are no tuple");
    int cooperative, programmatic;
    if (!PyArg_ParseTuple(parts, "SSO!O!(III)ppO", &program, &template, &PyTuple_Type, &offsets, &PyTuple_Type, &patches, &cluster[0],
            &cluster[1], &cluster[2], &cooperative, &programmatic, &function))
        return false;
    plan->cooperative = cooperative;
    plan->programmatic = programmatic;
    return program_read(&plan->program, program) && copy_template(plan, template) && copy_offsets(plan, offsets) &&
           copy_patches(plan, signature, call, patches) && copy_function(plan, function, natively);
}

struct plan *plan_new(struct core *core, PyObject *source, const struct signature *signature, const struct call *call, bool natively)
{
    struct plan *plan = (struct plan *)core->plan_type->tp_alloc(core->plan_type, 0);
    PyObject *parts = plan == NULL ? NULL : PyObject_GetAttrString(source, "native");
    if (parts != NULL && copy_parts(plan, parts, signature, call, natively))
        plan->source = Py_NewRef(source);
    else
        Py_CLEAR(plan);
    Py_XDECREF(parts);
    return plan;
}

/* Launches --------------------------------------------------------------------------------------------------------------------------- */

bool plan_applies(const struct plan *plan, struct call *call)
{
    return plan->program.slots <= call->slot_count && program_run(&plan->program, call->numbers);
}

static enum outcome apply_patch(const struct patch *patch, const struct core *core, const struct call *call, unsigned char *target)
{
    switch (patch->kind) {
    case PATCH_ADDRESS:
        memcpy(target, &call->numbers[patch->place], sizeof(int64_t));
        return DONE;
    case PATCH_OUTPUT:
        return scalar_encode(patch->code, call->numbers[patch->place], target) ? DONE : DECLINED;
    default:
        return value_encode(core, patch->format, call->values[patch->source], target, patch->size);
    }
}

enum outcome plan_fill(const struct plan *plan, const struct core *core, const struct call *call, struct prepared *prepared)
{
    memcpy(prepared->block, plan->block, plan->block_size);
    for (size_t i = 0; i < plan->patch_count; i++) {
        const struct patch *patch = &plan->patches[i];
        enum outcome outcome = apply_patch(patch, core, call, prepared->block + patch->offset);
        if (outcome != DONE)
            return outcome;
    }
    for (size_t i = 0; i < plan->offset_count; i++)
        prepared->parameters[i] = prepared->block + plan->offsets[i];
    return DONE;
}

/* The type --------------------------------------------------------------------------------------------------------------------------- */

static int plan_traverse(struct plan *plan, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(plan));
    Py_VISIT(plan->source);
    return 0;
}

static int plan_clear(struct plan *plan)
{
    Py_CLEAR(plan->source);
    return 0;
}

static void plan_dealloc(struct plan *plan)
{
    PyTypeObject *type = Py_TYPE(plan);
    PyObject_GC_UnTrack(plan);
    plan_clear(plan);
    program_free(&plan->program);
    for (size_t i = 0; i < plan->patch_count; i++)
        Py_XDECREF(plan->patches[i].format);
    PyMem_Free(plan->patches);
    PyMem_Free(plan->offsets);
    PyMem_Free(plan->block);
    type->tp_free(plan);
    Py_DECREF(type);
}

static PyType_Slot plan_slots[] = {
    {Py_tp_doc, "A launch plan as the core keeps it."},
    {Py_tp_traverse, plan_traverse},
    {Py_tp_clear, plan_clear},
    {Py_tp_dealloc, plan_dealloc},
    {0, NULL},
};

PyType_Spec plan_spec = {
    .name = "tilec_runtime._core.Plan",
    .basicsize = sizeof(struct plan),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = plan_slots,
};
