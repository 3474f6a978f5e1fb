/* Shared by all files of the extension: the state of the module, and the limits of a call. */
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

/* Device numbers that are not ordinals (the same as in runtime/tilec_runtime/device/layout.py). */
enum { ON_CPU = -1, ON_ANY = -2, ON_OTHER = -3, ON_GPU = -4 };

/* The outcome of a step of a launch. */
enum outcome {
    DONE,
    DECLINED, /* Python's path makes the launch, or reports the error */
    RAISED,   /* an exception that is not an Exception (KeyboardInterrupt) is set */
};

/* Clear the error of a call of Python, because Python's path will raise it again. Returns DECLINED, or RAISED for KeyboardInterrupt and others. */
enum outcome declined(void);

/* One element type: its DLPack code and bits, and the bytes of an element, a power of two (1 for packed elements). */
struct dtype {
    uint8_t code, bits, size;
};

/* The way to read arrays of one type. */
struct reader {
    PyTypeObject *type;
    int kind;                             /* enum reading_kind of array.h */
    const struct DLPackExchangeAPI *api;  /* NULL if Python reads them */
    PyObject *is_neg;                     /* torch's method, for torch tensors only */
};

/* The state of the module: one per process, because sub-interpreters are not supported. */
struct core {
    struct dtype dtypes[MOST_DTYPES];
    size_t dtype_count;
    uint8_t exchanged[MOST_CODES][5]; /* index in `dtypes` plus 1 for each DLPack code and 8, 16, .. 128 bits; 0 for none */
    PyObject *dtype_numbers; /* {name: index in `dtypes`} */
    PyObject *classify;      /* (type) -> kind of reading */
    PyObject *encode;        /* (format, value) -> bytes, for values that C does not encode */
    PyObject *stream_attribute; /* (type) -> name of the stream attribute that has the handle; None to call `stream_handle` */
    PyObject *stream_handle;    /* (stream) -> handle */
    PyObject *current_stream;   /* (values) -> handle of the current stream of their library */
    PyTypeObject *stream_type;  /* the type of the last stream */
    PyObject *stream_name;      /* its attribute */
    struct reader readers[MOST_READERS];
    size_t reader_count;
    PyTypeObject *plan_type, *table_type, *launcher_type;
    PyTypeObject *line_type, *uses_type, *lease_type, *described_type; /* defined in tensor.c */
    struct driver driver;
};

struct core *core_of(PyObject *module);

/* Whether an object is of a type or of a subclass. Most are of a direct subclass in Python, which is checked first. */
static inline bool is_kind(PyObject *object, PyTypeObject *type)
{
    return Py_TYPE(object)->tp_base == type || PyObject_TypeCheck(object, type);
}

#endif
