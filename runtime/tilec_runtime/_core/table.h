/* The type `Table`: launches of one launcher whose plan is cached. */
#ifndef TILEC_TABLE_H
#define TILEC_TABLE_H

#include "core.h"

/* Launch a call whose plan is cached; `order` is NULL where there is none. Returns what the method `launch` does. */
PyObject *table_try(PyObject *table, PyObject *stream, PyObject *const *values, size_t count, PyObject *order);

/* Whether an object is a table. */
bool table_check(PyObject *object);

extern PyType_Spec table_spec;

#endif
