/* The base type of ops, which enforces that an op is used once. */
#ifndef TILEC_OP_H
#define TILEC_OP_H

#include "core.h"

extern PyType_Spec op_spec;

#endif
