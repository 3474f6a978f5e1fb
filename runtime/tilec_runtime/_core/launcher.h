/* The base type of launchers: calls whose plan is cached run entirely in C. */
#ifndef TILEC_LAUNCHER_H
#define TILEC_LAUNCHER_H

#include "core.h"

extern PyType_Spec launcher_spec;

#endif
