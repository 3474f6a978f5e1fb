#include "driver.h"

#include <dlfcn.h>
#include <stddef.h>

/* The CUDA release that selects the versions of the entry points. */
#define CUDA_RELEASE 12000

typedef CUresult (*get_proc_address)(const char *symbol, void **entry, int release, uint64_t flags, int *status);

/* The offset of each entry point in `struct driver`. */
static const struct {
    const char *name;
    size_t offset;
} ENTRY_POINTS[] = {
    {"cuLaunchKernelEx", offsetof(struct driver, launch)},
    {"cuCtxGetCurrent", offsetof(struct driver, get_context)},
    {"cuCtxSetCurrent", offsetof(struct driver, set_context)},
    {"cuCtxPushCurrent", offsetof(struct driver, push_context)},
    {"cuCtxPopCurrent", offsetof(struct driver, pop_context)},
    {"cuGraphLaunch", offsetof(struct driver, launch_graph)},
    {"cuStreamIsCapturing", offsetof(struct driver, is_capturing)},
};

#define ENTRY_POINT_COUNT (sizeof ENTRY_POINTS / sizeof ENTRY_POINTS[0])

static void **entry_of(struct driver *driver, size_t index)
{
    return (void **)((char *)driver + ENTRY_POINTS[index].offset);
}

bool driver_open(struct driver *driver)
{
    if (driver->launch != NULL)
        return true;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); /* never closed: other libraries of the process use it too */
    get_proc_address find = library == NULL ? NULL : (get_proc_address)dlsym(library, "cuGetProcAddress_v2");
    if (find == NULL) {
        PyErr_Format(PyExc_OSError, "no CUDA driver that tilec knows: %s", dlerror());
        return false;
    }
    struct driver found = {0};
    for (size_t i = 0; i < ENTRY_POINT_COUNT; i++) {
        int status = 0;
        if (find(ENTRY_POINTS[i].name, entry_of(&found, i), CUDA_RELEASE, 0, &status) != CUDA_SUCCESS || *entry_of(&found, i) == NULL) {
            PyErr_Format(PyExc_OSError, "the CUDA driver has no %s", ENTRY_POINTS[i].name);
            return false;
        }
    }
    *driver = found;
    return true;
}

bool driver_replace(struct driver *driver, PyObject *addresses)
{
    struct driver found = {0};
    for (size_t i = 0; i < ENTRY_POINT_COUNT; i++) {
        PyObject *address = PyMapping_GetItemString(addresses, ENTRY_POINTS[i].name);
        *entry_of(&found, i) = address == NULL ? NULL : PyLong_AsVoidPtr(address);
        Py_XDECREF(address);
        if (PyErr_Occurred())
            return false;
    }
    *driver = found;
    return true;
}

static struct launch_attribute *add_attribute(struct launch *launch, enum launch_attribute_id id)
{
    struct launch_attribute *attribute = &launch->attributes[launch->config.attribute_count++];
    *attribute = (struct launch_attribute){.id = id};
    attribute->value.flag = 1;
    launch->config.attributes = launch->attributes;
    return attribute;
}

void launch_attributes(struct launch *launch, const uint32_t cluster[3], bool cooperative, bool programmatic)
{
    launch->config.attribute_count = 0;
    launch->config.attributes = NULL;
    if ((uint64_t)cluster[0] * cluster[1] * cluster[2] > 1) { /* older devices refuse the attribute, even for one block */
        struct launch_attribute *attribute = add_attribute(launch, ATTRIBUTE_CLUSTER_DIMENSION);
        for (int i = 0; i < 3; i++)
            attribute->value.cluster[i] = cluster[i];
    }
    if (cooperative)
        add_attribute(launch, ATTRIBUTE_COOPERATIVE);
    if (programmatic)
        add_attribute(launch, ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
}

/* Make the context of a device current. Sets `pushed` if `leave` has to undo it. */
static CUresult enter(const struct driver *driver, struct place place, bool *pushed)
{
    CUcontext current = NULL;
    CUresult result = driver->get_context(&current);
    *pushed = false;
    if (result != CUDA_SUCCESS || current == place.context)
        return result;
    if (current == NULL && place.adopts)
        return driver->set_context(place.context);
    result = driver->push_context(place.context);
    *pushed = result == CUDA_SUCCESS;
    return result;
}

static void leave(const struct driver *driver, bool pushed)
{
    CUcontext popped;
    if (pushed)
        driver->pop_context(&popped);
}

CUresult driver_launch(const struct driver *driver, const struct launch *launch)
{
    /* The function has its own context, but the legacy default stream is that of the current context. */
    bool pushed;
    CUresult result = enter(driver, launch->place, &pushed);
    if (result == CUDA_SUCCESS)
        result = driver->launch(&launch->config, launch->function, launch->parameters, NULL);
    leave(driver, pushed);
    return result;
}

CUresult driver_launch_graph(const struct driver *driver, struct place place, CUgraphExec graph, CUstream stream)
{
    bool pushed;
    CUresult result = enter(driver, place, &pushed);
    int capturing = 0;
    if (result == CUDA_SUCCESS)
        result = driver->is_capturing(stream, &capturing);
    if (capturing || result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (result == CUDA_SUCCESS)
        result = driver->launch_graph(graph, stream);
    leave(driver, pushed);
    return result;
}
