/* The type `Table`: launches of one launcher whose plan is cached. */
#ifndef TILEC_TABLE_H
#define TILEC_TABLE_H

#include "core.h"

extern PyType_Spec table_spec;

#endif
