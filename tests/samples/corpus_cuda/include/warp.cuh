// Sums over a warp, for every file that needs one.
#pragma once

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarp = 32;

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
    for (int lanes = kWarp / 2; lanes > 0; lanes >>= 1) value += __shfl_down_sync(kAllLanes, value, lanes);
    return value;
}

/// Inclusive running sum over the lanes of a warp.
template <typename T>
__device__ __forceinline__ T warp_scan(T value) {
    for (int lanes = 1; lanes < kWarp; lanes <<= 1) {
        const T left = __shfl_up_sync(kAllLanes, value, lanes);
        if (static_cast<int>(threadIdx.x % kWarp) >= lanes) value += left;
    }
    return value;
}
