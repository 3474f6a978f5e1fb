/* What all files of the extension share: the state of the module, and the limits of a call. */
#ifndef TILEC_CORE_H
#define TILEC_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

/* Limits of a call that the core launches; a call beyond them takes Python's path. */
#define MOST_RANK 16
#define MOST_SLOTS 512
#define MOST_OUTPUTS 128
#define MOST_TENSORS 64
#define MOST_KEY 192
#define MOST_BLOCK 4096
#define MOST_ARGUMENTS 512

/* Sizes of the tables of the module. */
#define MOST_DTYPES 32
#define MOST_CODES 32
#define MOST_READERS 64

/* Numbers of devices that are none (runtime/tilec_runtime/device/layout.py has the same ones). */
enum { ON_CPU = -1, ON_ANY = -2, ON_OTHER = -3, ON_GPU = -4 };

/* What a step of a launch came to. */
enum outcome {
    DONE,
    DECLINED, /* Python's path does it, or says what is wrong */
    RAISED,   /* an exception that is no error (KeyboardInterrupt) is on its way */
};

/* Drop the error that a call of Python left, which Python's path will meet again. Returns DECLINED, or RAISED for what is no error. */
enum outcome declined(void);

/* One element type: its code and bits in DLPack, and the bytes of an element, a power of two (of the byte that elements share). */
struct dtype {
    uint8_t code, bits, size;
};

/* How the arrays of one type are read. */
struct reader {
    PyTypeObject *type;
    int kind;                             /* enum reading_kind of array.h */
    const struct DLPackExchangeAPI *api;  /* NULL where Python reads them */
    PyObject *is_neg;                     /* torch's method, of torch tensors alone */
};

/* The state of the module: one for the process, since sub-interpreters are not supported. */
struct core {
    struct dtype dtypes[MOST_DTYPES];
    size_t dtype_count;
    uint8_t exchanged[MOST_CODES][5]; /* index in `dtypes`, and 1, of each code in 8, 16, .. 128 bits; 0 for none */
    PyObject *dtype_numbers; /* {name: index in `dtypes`} */
    PyObject *classify;      /* (type) -> kind of reading */
    PyObject *encode;        /* (format, value) -> bytes, for values that C does not encode */
    PyObject *stream_attribute; /* (type) -> name of the attribute of such streams that has the handle; None where Python asks */
    PyObject *stream_handle;    /* (stream) -> handle */
    PyObject *current_stream;   /* (values) -> handle of the current stream of their library */
    PyTypeObject *stream_type;  /* the last type of streams that was met */
    PyObject *stream_name;      /* its attribute */
    struct reader readers[MOST_READERS];
    size_t reader_count;
    PyTypeObject *plan_type, *table_type, *launcher_type;
    PyTypeObject *line_type, *uses_type, *lease_type, *described_type; /* of tensor.c */
    PyObject *name_ptr, *name_shape, *name_stride, *name_dtype, *name_device, *name_readonly;
    struct driver driver;
};

struct core *core_of(PyObject *module);

/* Whether an object is of a type or of one that derives from it, most often directly: Python's classes do. */
static inline bool is_kind(PyObject *object, PyTypeObject *type)
{
    return Py_TYPE(object)->tp_base == type || PyObject_TypeCheck(object, type);
}

#endif
