// Histograms of bytes: counts of each block in shared memory, and counts spread over the shared memory of a cluster.
#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int kBins = 256;

/// Each thread takes four bytes at a time; what is left at the end is taken one by one.
extern "C" __global__ void __launch_bounds__(256) histogram256(unsigned int* __restrict__ counts, const uchar4* __restrict__ x, long long n) {
    __shared__ unsigned int local[kBins];
    local[threadIdx.x] = 0;
    __syncthreads();
    const long long first = blockIdx.x * 256ll + threadIdx.x, stride = gridDim.x * 256ll;
    for (long long i = first; i < n / 4; i += stride) {
        const uchar4 four = x[i];
        atomicAdd(&local[four.x], 1u);
        atomicAdd(&local[four.y], 1u);
        atomicAdd(&local[four.z], 1u);
        atomicAdd(&local[four.w], 1u);
    }
    const unsigned char* const bytes = reinterpret_cast<const unsigned char*>(x);
    if (first < n % 4) atomicAdd(&local[bytes[n / 4 * 4 + first]], 1u);
    __syncthreads();
    if (local[threadIdx.x]) atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
/// Two blocks of a cluster own half of the bins each, and count in each other's shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_histogram(unsigned int* __restrict__ counts, const unsigned char* __restrict__ x, long long n) {
    __shared__ unsigned int local[kBins / 2];
    const auto cluster = cg::this_cluster();
    for (int b = threadIdx.x; b < kBins / 2; b += blockDim.x) local[b] = 0;
    cluster.sync();  // a block writes to its neighbour only when that one is there, and has cleared
    const long long stride = gridDim.x * static_cast<long long>(blockDim.x);
    for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n; i += stride) {
        const int bin = x[i];
        unsigned int* const there = cluster.map_shared_rank(local, bin / (kBins / 2));
        atomicAdd(there + bin % (kBins / 2), 1u);
    }
    cluster.sync();
    const int start = cluster.block_rank() * (kBins / 2);
    for (int b = threadIdx.x; b < kBins / 2; b += blockDim.x) atomicAdd(&counts[start + b], local[b]);
}
#endif
