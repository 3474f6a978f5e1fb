#include "cache.h"

#include <string.h>

/* Keys ------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct call *call)
{
    uint64_t hash = call->key_count;
    for (size_t i = 0; i < call->key_count; i++) {
        hash = (hash ^ call->key[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool has_key(const struct entry *entry, uint64_t hash, const struct call *call)
{
    return entry->hash == hash && entry->key_count == call->key_count &&
           memcmp(entry->key, call->key, call->key_count * sizeof *call->key) == 0;
}

static struct entry *find_entry(const struct cache *cache, uint64_t hash, const struct call *call)
{
    struct entry *entry = cache->buckets[hash % BUCKETS];
    while (entry != NULL && !has_key(entry, hash, call))
        entry = entry->next_in_bucket;
    return entry;
}

/* Move a plan of an entry to the front. */
static struct plan *put_first(struct entry *entry, size_t place)
{
    struct plan *plan = entry->plans[place];
    for (size_t i = place; i > 0; i--)
        entry->plans[i] = entry->plans[i - 1];
    return entry->plans[0] = plan;
}

struct plan *cache_find(struct cache *cache, struct call *call)
{
    struct entry *entry = find_entry(cache, hash_of(call), call);
    for (size_t i = 0; entry != NULL && i < entry->plan_count; i++) /* any plan that applies makes the same launch */
        if (plan_applies(entry->plans[i], call))
            return (struct plan *)Py_NewRef(put_first(entry, i));
    return NULL;
}

/* Entries ---------------------------------------------------------------------------------------------------------------------------- */

/* Free an unlinked entry. It must be unlinked, because dropping references may run Python code, which may launch. */
static void free_entry(struct entry *entry)
{
    for (size_t i = 0; i < entry->plan_count; i++)
        Py_DECREF(entry->plans[i]);
    Py_DECREF(entry->types);
    PyMem_Free(entry->key);
    PyMem_Free(entry);
}

static struct entry *new_entry(uint64_t hash, const struct call *call, PyObject *types)
{
    struct entry *entry = PyMem_Calloc(1, sizeof *entry);
    uint64_t *key = PyMem_Malloc((call->key_count + 1) * sizeof *key);
    if (entry == NULL || key == NULL) {
        PyMem_Free(entry);
        PyMem_Free(key);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(key, call->key, call->key_count * sizeof *key);
    entry->hash = hash;
    entry->key = key;
    entry->key_count = call->key_count;
    entry->types = Py_NewRef(types);
    return entry;
}

static void link_entry(struct cache *cache, struct entry *entry)
{
    struct entry **bucket = &cache->buckets[entry->hash % BUCKETS];
    entry->next_in_bucket = *bucket;
    *bucket = entry;
    if (cache->newest != NULL)
        cache->newest->next_in_age = entry;
    else
        cache->oldest = entry;
    cache->newest = entry;
    cache->entry_count++;
}

/* Unlink the oldest entry and return it. */
static struct entry *unlink_oldest(struct cache *cache)
{
    struct entry *oldest = cache->oldest, **link = &cache->buckets[oldest->hash % BUCKETS];
    while (*link != oldest)
        link = &(*link)->next_in_bucket;
    *link = oldest->next_in_bucket;
    cache->oldest = oldest->next_in_age;
    if (cache->oldest == NULL)
        cache->newest = NULL;
    cache->entry_count--;
    return oldest;
}

static bool holds_source(const struct entry *entry, const struct plan *plan)
{
    for (size_t i = 0; i < entry->plan_count; i++)
        if (entry->plans[i]->source == plan->source)
            return true;
    return false;
}

/* Add a plan to its entry; a full entry evicts its least recently used plan. If two threads miss and add the same plan, it is added once. */
static void add_plan(struct entry *entry, struct plan *plan)
{
    if (holds_source(entry, plan))
        return;
    struct plan *before = NULL;
    if (entry->plan_count == MOST_ALIKE)
        before = entry->plans[MOST_ALIKE - 1];
    else
        entry->plan_count++;
    entry->plans[entry->plan_count - 1] = (struct plan *)Py_NewRef(plan);
    put_first(entry, entry->plan_count - 1);
    Py_XDECREF(before);
}

bool cache_add(struct cache *cache, const struct call *call, PyObject *types, struct plan *plan)
{
    uint64_t hash = hash_of(call);
    struct entry *entry = find_entry(cache, hash, call), *evicted = NULL;
    if (entry == NULL) {
        entry = new_entry(hash, call, types);
        if (entry == NULL)
            return false;
        if (cache->entry_count == MOST_KEYS)
            evicted = unlink_oldest(cache);
        link_entry(cache, entry);
    }
    add_plan(entry, plan);
    if (evicted != NULL)
        free_entry(evicted);
    return true;
}

void cache_clear(struct cache *cache)
{
    while (cache->oldest != NULL)
        free_entry(unlink_oldest(cache));
}

int cache_traverse(const struct cache *cache, visitproc visit, void *arg)
{
    for (const struct entry *entry = cache->oldest; entry != NULL; entry = entry->next_in_age) {
        Py_VISIT(entry->types);
        for (size_t i = 0; i < entry->plan_count; i++)
            Py_VISIT(entry->plans[i]);
    }
    return 0;
}
