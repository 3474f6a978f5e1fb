// Where a thread is in a one-dimensional grid. Editing this header compiles exactly the kernels that include it.
#pragma once

__device__ __forceinline__ long long global_index() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}
