/* The plans of one launcher: a hash table from keys of calls to plans that may apply. Bounded: the oldest key leaves, and the plan of a key
 * that was not used for longest. */
#ifndef TILEC_CACHE_H
#define TILEC_CACHE_H

#include "plan.h"

/* Keys of one launcher, and plans of one key (as runtime/tilec_runtime/launch/launcher.py has them). */
#define MOST_KEYS 1024
#define MOST_ALIKE 16
#define BUCKETS 256

struct entry {
    struct entry *next_in_bucket, *next_in_age;
    uint64_t hash;
    uint64_t *key;
    size_t key_count;
    PyObject *types; /* keeps the types alive whose addresses are in the key */
    struct plan *plans[MOST_ALIKE]; /* the last used first; the first one that applies launches */
    size_t plan_count;
};

struct cache {
    struct entry *buckets[BUCKETS];
    struct entry *oldest, *newest;
    size_t entry_count;
};

/* Find a plan that applies to a call, whose numbers have its outputs then; a new reference. NULL on a miss. Runs no Python. */
struct plan *cache_find(struct cache *cache, struct call *call);

/* Add a plan under the key of a call. False with an exception where there is no memory. */
bool cache_add(struct cache *cache, const struct call *call, PyObject *types, struct plan *plan);

/* Drop all plans. */
void cache_clear(struct cache *cache);

size_t cache_plan_count(const struct cache *cache);
int cache_traverse(const struct cache *cache, visitproc visit, void *arg);

#endif
