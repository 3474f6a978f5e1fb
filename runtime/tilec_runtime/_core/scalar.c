#include "scalar.h"

#include <math.h>
#include <string.h>

size_t scalar_size(char format)
{
    switch (format) {
    case 'b':
    case 'B':
    case '?':
        return 1;
    case 'h':
    case 'H':
        return 2;
    case 'i':
    case 'I':
    case 'f':
        return 4;
    case 'q':
    case 'Q':
    case 'd':
        return 8;
    default:
        return 0;
    }
}

/* Store the low bytes of an integer. Returns false if it is out of range. */
static bool store(int64_t value, int64_t low, int64_t high, unsigned char *target, size_t size)
{
    if (value < low || value > high)
        return false;
    memcpy(target, &value, size); /* little-endian */
    return true;
}

static bool store_float(double value, unsigned char *target)
{
    float narrow = (float)value;
    if (isinf(narrow) && !isinf(value)) /* the struct module refuses it too */
        return false;
    memcpy(target, &narrow, sizeof narrow);
    return true;
}

static bool store_double(char format, double value, unsigned char *target)
{
    if (format == 'f')
        return store_float(value, target);
    memcpy(target, &value, sizeof value);
    return true;
}

bool scalar_encode(char format, int64_t value, unsigned char *target)
{
    switch (format) {
    case '?':
        return store(value != 0, 0, 1, target, 1);
    case 'b':
        return store(value, INT8_MIN, INT8_MAX, target, 1);
    case 'B':
        return store(value, 0, UINT8_MAX, target, 1);
    case 'h':
        return store(value, INT16_MIN, INT16_MAX, target, 2);
    case 'H':
        return store(value, 0, UINT16_MAX, target, 2);
    case 'i':
        return store(value, INT32_MIN, INT32_MAX, target, 4);
    case 'I':
        return store(value, 0, UINT32_MAX, target, 4);
    case 'q':
        return store(value, INT64_MIN, INT64_MAX, target, 8);
    case 'Q':
        return store(value, 0, INT64_MAX, target, 8);
    default:
        return store_double(format, (double)value, target);
    }
}

/* Let Python encode a value: NumPy's scalars, structs, small floats, integers beyond 64 bits. */
static enum outcome encode_by_python(const struct core *core, PyObject *format, PyObject *value, unsigned char *target, size_t size)
{
    PyObject *bytes = PyObject_CallFunctionObjArgs(core->encode, format, value, NULL);
    bool fits = bytes != NULL && PyBytes_Check(bytes) && (size_t)PyBytes_GET_SIZE(bytes) == size;
    if (fits)
        memcpy(target, PyBytes_AS_STRING(bytes), size);
    Py_XDECREF(bytes);
    return fits ? DONE : declined();
}

enum outcome value_encode(const struct core *core, PyObject *format, PyObject *value, unsigned char *target, size_t size)
{
    char code = (char)PyUnicode_READ_CHAR(format, 0);
    bool plain = PyUnicode_GET_LENGTH(format) == 1 && scalar_size(code) == size;
    if (plain && (code == 'f' || code == 'd') && PyFloat_CheckExact(value))
        return store_double(code, PyFloat_AS_DOUBLE(value), target) ? DONE : DECLINED;
    if (plain && (PyLong_CheckExact(value) || PyBool_Check(value))) {
        int overflow;
        int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow)
            return scalar_encode(code, number, target) ? DONE : DECLINED;
    }
    return encode_by_python(core, format, value, target, size);
}
