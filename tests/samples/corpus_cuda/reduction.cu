// One sum per block, the ways in which a reduction is taught: a tree in shared memory, shuffles, cooperative groups.
#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "warp.cuh"

namespace cg = cooperative_groups;

/// What a thread adds up on its own, in strides of the grid, for blocks of BLOCK threads.
template <typename T, int BLOCK>
__device__ T own_sum(const T* __restrict__ x, long long n) {
    T sum = T(0);
    for (long long i = blockIdx.x * static_cast<long long>(BLOCK) + threadIdx.x; i < n; i += static_cast<long long>(gridDim.x) * BLOCK) sum += x[i];
    return sum;
}

namespace sums {

/// A tree in dynamic shared memory, the last warp without barriers of the block.
template <typename T, int BLOCK>
__global__ void tree(T* __restrict__ out, const T* __restrict__ x, long long n) {
    extern __shared__ __align__(16) unsigned char raw[];
    T* const part = reinterpret_cast<T*>(raw);
    const int t = threadIdx.x;
    part[t] = own_sum<T, BLOCK>(x, n);
    __syncthreads();
#pragma unroll
    for (int half = BLOCK / 2; half > kWarp; half >>= 1) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t < kWarp) {
        const T sum = warp_sum<T>(BLOCK > kWarp ? part[t] + part[t + kWarp] : part[t]);
        if (t == 0) out[blockIdx.x] = sum;
    }
}

/// Shuffles inside of each warp, then over the warps.
template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK) shuffles(T* __restrict__ out, const T* __restrict__ x, long long n) {
    __shared__ T part[BLOCK / kWarp];
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    T sum = warp_sum(own_sum<T, BLOCK>(x, n));
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(lane < BLOCK / kWarp ? part[lane] : T(0));
        if (lane == 0) out[blockIdx.x] = sum;
    }
}

/// Cooperative groups: a tile of a warp reduces, and one of its threads adds to what the block has.
template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK) groups(T* __restrict__ out, const T* __restrict__ x, long long n) {
    __shared__ T total;
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<kWarp>(block);
    if (block.thread_rank() == 0) total = T(0);
    block.sync();
    const T sum = cg::reduce(tile, own_sum<T, BLOCK>(x, n), cg::plus<T>());
    if (tile.thread_rank() == 0) atomicAdd(&total, sum);
    block.sync();
    if (block.thread_rank() == 0) out[blockIdx.x] = total;
}

}  // namespace sums

/// The whole sum in one launch: all blocks wait for each other, then the first one adds up what they left.
extern "C" __global__ void grid_sum(double* __restrict__ total, double* __restrict__ scratch, const float* __restrict__ x, long long n) {
    __shared__ double part[kWarp];
    const auto grid = cg::this_grid();
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
    double sum = 0;
    for (unsigned long long i = grid.thread_rank(); i < static_cast<unsigned long long>(n); i += grid.size()) sum += x[i];
    sum = warp_sum(sum);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < warps; ++w) part[0] += part[w];
        scratch[blockIdx.x] = part[0];
    }
    grid.sync();
    if (grid.thread_rank() == 0) {
        double all = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) all += scratch[b];
        total[0] = all;
    }
}

/// The last block to finish adds up the others: an atomic ticket and a fence instead of a barrier of the grid.
__device__ unsigned int tickets;

extern "C" __global__ void last_block_sum(float* total, volatile float* scratch, const float* __restrict__ x, long long n) {
    __shared__ bool last;
    __shared__ float part[kWarp];
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
    float sum = warp_sum(own_sum<float, 256>(x, n));
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < warps; ++w) part[0] += part[w];
        scratch[blockIdx.x] = part[0];
        __threadfence();
        last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = 0.0f;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += scratch[b];
    sum = warp_sum(sum);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < warps; ++w) part[0] += part[w];
        total[0] = part[0];
    }
}
