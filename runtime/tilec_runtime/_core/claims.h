/* The claims of an op on its arguments, as functions of Python: all taken in one call, and given up in one. */
#ifndef TILEC_CLAIMS_H
#define TILEC_CLAIMS_H

#include "core.h"

extern PyMethodDef claims_methods[];

#endif
