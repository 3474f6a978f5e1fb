/* The type `Table`: the cached plans of one launcher, and their launches. */
#ifndef TILEC_TABLE_H
#define TILEC_TABLE_H

#include "core.h"

/* Launch a call whose plan is cached. `order` may be NULL. Returns the value of the method `launch`. */
PyObject *table_try(PyObject *table, PyObject *stream, PyObject *const *values, size_t count, PyObject *order);

/* Whether an object is a table. */
bool table_check(PyObject *object);

extern PyType_Spec table_spec;

#endif
