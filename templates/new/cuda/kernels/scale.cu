// y = factor * x for any element type; the arithmetic is in f32.
#include <cuda_fp16.h>

#include "index.cuh"

/// Scale every element.
template <typename T>
__global__ void __launch_bounds__(256) scale(T* __restrict__ y, const T* __restrict__ x, float factor, long long n) {
    const long long i = global_index();
    if (i < n) y[i] = static_cast<T>(static_cast<float>(x[i]) * factor);
}
