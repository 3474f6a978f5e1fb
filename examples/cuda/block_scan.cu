// Running sums along the rows of a matrix with cooperative groups: a scan in each warp, a scan over the warps, a carry between chunks.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

/// Inclusive sum over the lanes of a warp.
__device__ __forceinline__ int warp_scan(const cg::thread_block_tile<kWarp>& warp, int value) {
    for (int lanes = 1; lanes < kWarp; lanes *= 2) {
        const int lower = warp.shfl_up(value, lanes);
        if (static_cast<int>(warp.thread_rank()) >= lanes) value += lower;
    }
    return value;
}

/// y[r][c] = x[r][0] + ... + x[r][c], one block per row; rows may have any length.
extern "C" __global__ void __launch_bounds__(kThreads) block_scan(int* __restrict__ y, const int* __restrict__ x, int columns) {
    __shared__ int totals[kWarps];
    const cg::thread_block block = cg::this_thread_block();
    const cg::thread_block_tile<kWarp> warp = cg::tiled_partition<kWarp>(block);
    const long long row = static_cast<long long>(blockIdx.x) * columns;

    int carry = 0;  // sum of all earlier chunks of this row; every thread keeps its own copy
    for (int chunk = 0; chunk < columns; chunk += kThreads) {
        const int column = chunk + static_cast<int>(block.thread_rank());
        const int value = column < columns ? x[row + column] : 0;
        const int upto = warp_scan(warp, value);
        if (warp.thread_rank() == kWarp - 1) totals[warp.meta_group_rank()] = upto;
        block.sync();

        int before = 0;  // sum of the warps in front of this one
        int all = 0;
        for (int w = 0; w < kWarps; ++w) {
            before += w < static_cast<int>(warp.meta_group_rank()) ? totals[w] : 0;
            all += totals[w];
        }
        if (column < columns) y[row + column] = carry + before + upto;
        carry += all;
        block.sync();  // totals are written again in the next round
    }
}
