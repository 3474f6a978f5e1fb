// What the threads of a warp do together: one atomic for all that are in a branch, votes, matching values, a sort by exchanges.
#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/// The positive elements of x, in any order; count[0] is how many. Threads that are in the branch share one atomic.
extern "C" __global__ void keep_positive(int* __restrict__ y, int* count, const int* __restrict__ x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int value = x[i];
        if (value > 0) {
            const auto here = cg::coalesced_threads();
            int first = 0;
            if (here.thread_rank() == 0) first = atomicAdd(count, static_cast<int>(here.size()));
            y[here.shfl(first, 0) + here.thread_rank()] = value;
        }
    }
}

/// How many elements have each key, with one atomic for all threads of a warp that have the same.
extern "C" __global__ void count_keys(int* counts, const int* __restrict__ keys, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned active = __ballot_sync(0xffffffffu, i < n);
    if (i >= n) return;
    const unsigned same = __match_any_sync(active, keys[i]);
    if (__ffs(same) - 1 == static_cast<int>(threadIdx.x % 32)) atomicAdd(&counts[keys[i]], __popc(same));
}

/// Per warp of 32 elements: bit 0 says that any is odd, bit 1 that all are, the rest how many are.
extern "C" __global__ void votes(int* __restrict__ y, const int* __restrict__ x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool odd = i < n && x[i] % 2 != 0;
    const int any = __any_sync(0xffffffffu, odd), all = __all_sync(0xffffffffu, odd);
    const int many = __popc(__ballot_sync(0xffffffffu, odd));
    if (threadIdx.x % 32 == 0 && i < n) y[i / 32] = any + 2 * all + 4 * many;
}

/// Sorts rows of 2 * blockDim.x values in shared memory, by a bitonic network.
extern "C" __global__ void sort_rows(unsigned int* __restrict__ y, const unsigned int* __restrict__ x) {
    extern __shared__ unsigned int keys[];
    const int half = blockDim.x, size = 2 * half, t = threadIdx.x;
    const long long row = blockIdx.x * static_cast<long long>(size);
    keys[t] = x[row + t];
    keys[t + half] = x[row + t + half];
    for (int run = 2; run <= size; run <<= 1) {
        for (int step = run / 2; step > 0; step >>= 1) {
            __syncthreads();
            const int low = 2 * t - (t & (step - 1)), high = low + step;
            const bool rising = (low & run) == 0;
            if ((keys[low] > keys[high]) == rising) {
                const unsigned int kept = keys[low];
                keys[low] = keys[high];
                keys[high] = kept;
            }
        }
    }
    __syncthreads();
    y[row + t] = keys[t];
    y[row + t + half] = keys[t + half];
}
