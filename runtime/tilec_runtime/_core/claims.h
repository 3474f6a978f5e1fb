/* The claims of an op on its arguments, as Python functions: one call takes them all, and one gives them up. */
#ifndef TILEC_CLAIMS_H
#define TILEC_CLAIMS_H

#include "core.h"

extern PyMethodDef claims_methods[];

#endif
