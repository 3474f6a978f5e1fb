// Sum of a vector: vector loads in a grid-stride loop, warp shuffles, one atomic addition per block.
constexpr int kThreads = 256;
constexpr int kWarp = 32;

/// Sum over the lanes of a warp; every lane gets the result.
__device__ __forceinline__ float warp_sum(float value) {
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, lanes);
    }
    return value;
}

/// Sum over the threads of a block; thread 0 gets the result.
__device__ float block_sum(float value) {
    __shared__ float partial[kThreads / kWarp];
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    value = warp_sum(value);
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    return warp == 0 ? warp_sum(lane < kThreads / kWarp ? partial[lane] : 0.0f) : 0.0f;
}

/// total[0] += sum of x[0 .. n). The order of the blocks' additions is free, so that last bits may differ between runs.
extern "C" __global__ void __launch_bounds__(kThreads) reduce_sum(float* __restrict__ total, const float* __restrict__ x, long long n) {
    const long long first = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    const long long stride = static_cast<long long>(gridDim.x) * kThreads;

    // Elements in front of the first 16-byte boundary and behind the last one are taken one by one.
    const long long skip = min(n, static_cast<long long>((16 - reinterpret_cast<size_t>(x) % 16) % 16 / sizeof(float)));
    const long long vectors = (n - skip) / 4;
    const float4* body = reinterpret_cast<const float4*>(x + skip);

    float sum = 0.0f;
    for (long long i = first; i < vectors; i += stride) {
        const float4 v = body[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    if (first < skip) sum += x[first];
    if (first < n - skip - 4 * vectors) sum += x[skip + 4 * vectors + first];

    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(total, sum);
}
