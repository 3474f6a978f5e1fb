// Running sums: inside of blocks with the sum of each, by shuffles and by a double buffer; and the offsets added afterwards.
#include "warp.cuh"

/// y = running sums inside of each block of BLOCK elements; sums[b] = all of block b.
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) scan_blocks(int* __restrict__ y, int* __restrict__ sums, const int* __restrict__ x, int n) {
    __shared__ int totals[kWarp];
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    int value = warp_scan(i < n ? x[i] : 0);
    if (lane == kWarp - 1) totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        const int upto = warp_scan(lane < BLOCK / kWarp ? totals[lane] : 0);
        totals[lane] = upto;
    }
    __syncthreads();
    if (warp > 0) value += totals[warp - 1];
    if (i < n) y[i] = value;
    if (threadIdx.x == BLOCK - 1) sums[blockIdx.x] = value;
}

/// The plain algorithm: log2(n) rounds between two halves of shared memory, exclusive, one block for each row.
extern "C" __global__ void scan_rows(float* __restrict__ y, const float* __restrict__ x, int columns) {
    extern __shared__ float halves[];
    const int t = threadIdx.x;
    const long long at = blockIdx.x * static_cast<long long>(columns) + t;
    int out = 0, in = 1;
    halves[t] = t > 0 && t < columns ? x[at - 1] : 0.0f;
    __syncthreads();
    for (int offset = 1; offset < static_cast<int>(blockDim.x); offset *= 2) {
        out = 1 - out;
        in = 1 - out;
        const float here = halves[in * blockDim.x + t];
        halves[out * blockDim.x + t] = t >= offset ? here + halves[in * blockDim.x + t - offset] : here;
        __syncthreads();
    }
    if (t < columns) y[at] = halves[out * blockDim.x + t];
}

/// y[i] += offsets[block of i - 1]: the second half of a scan over many blocks.
extern "C" __global__ void add_offsets(int* y, const int* __restrict__ offsets, int n) {
    __shared__ int offset;
    if (threadIdx.x == 0) offset = blockIdx.x > 0 ? offsets[blockIdx.x - 1] : 0;
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += offset;
}
