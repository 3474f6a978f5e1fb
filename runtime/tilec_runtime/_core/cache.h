/* The plan cache of one launcher: a hash table from keys of calls to plans that may apply. It is bounded: it evicts the oldest key, and the
 * least recently used plan of a key. */
#ifndef TILEC_CACHE_H
#define TILEC_CACHE_H

#include "plan.h"

/* Most keys of one launcher, and most plans of one key (as in runtime/tilec_runtime/launch/plans.py). */
#define MOST_KEYS 1024
#define MOST_ALIKE 16
#define BUCKETS 256

struct entry {
    struct entry *next_in_bucket, *next_in_age;
    uint64_t hash;
    uint64_t *key;
    size_t key_count;
    PyObject *types; /* keeps alive the types whose addresses are in the key */
    struct plan *plans[MOST_ALIKE]; /* most recently used first; the first that applies is launched */
    size_t plan_count;
};

struct cache {
    struct entry *buckets[BUCKETS];
    struct entry *oldest, *newest;
    size_t entry_count;
};

/* Find a plan that applies to a call; the call's numbers then have the plan's outputs. Returns a new reference, or NULL on a miss. Runs no
 * Python. */
struct plan *cache_find(struct cache *cache, struct call *call);

/* Add a plan under the key of a call. Returns false with an exception if memory runs out. */
bool cache_add(struct cache *cache, const struct call *call, PyObject *types, struct plan *plan);

/* Drop all plans. */
void cache_clear(struct cache *cache);

int cache_traverse(const struct cache *cache, visitproc visit, void *arg);

#endif
