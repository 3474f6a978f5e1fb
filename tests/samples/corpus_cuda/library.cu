// A block's primitives from CUB: running sums of what each thread holds, and the block's largest element.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

constexpr int kItems = 4;

struct Larger {
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

/// Rows of BLOCK * 4 integers: their running sums, and the largest of each.
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) scan_and_max(int* __restrict__ sums, int* __restrict__ largest, const int* __restrict__ x) {
    using Scan = cub::BlockScan<int, BLOCK>;
    using Reduce = cub::BlockReduce<int, BLOCK>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } shared;
    const long long start = blockIdx.x * static_cast<long long>(BLOCK * kItems) + threadIdx.x * kItems;
    int items[kItems], upto[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) items[i] = x[start + i];
    Scan(shared.scan).InclusiveSum(items, upto);
    __syncthreads();
    const int most = Reduce(shared.reduce).Reduce(items, Larger{});
#pragma unroll
    for (int i = 0; i < kItems; ++i) sums[start + i] = upto[i];
    if (threadIdx.x == 0) largest[blockIdx.x] = most;
}
