// Running sums along the rows of a matrix with cooperative groups: a scan in each warp, a scan over the warps, a carry between chunks.

// Cooperative groups with type traits of their own: nothing here needs libcu++, and reading it would take ten times as long as the rest.
#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

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
        const int upto = cg::inclusive_scan(warp, value, cg::plus<int>());
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
