// y = scale * x + bias for any element type, VEC elements per thread: one source, an instance per point of a matrix.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int kThreads = 256;

/// VEC elements that move in one piece where the hardware has loads that wide.
template <typename T, int VEC>
struct alignas(sizeof(T) * VEC) Pack {
    T items[VEC];
};

/// Scale and shift every element; arithmetic is in f32 whatever T is.
template <typename T, int VEC>
__global__ void __launch_bounds__(kThreads) scale_bias(T* __restrict__ y, const T* __restrict__ x, float scale, float bias, long long n) {
    const long long start = (static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) * VEC;
    const auto apply = [=](T value) { return static_cast<T>(static_cast<float>(value) * scale + bias); };

    // A view into a larger array may start anywhere: wide accesses are for pointers that allow them.
    const bool aligned = (reinterpret_cast<size_t>(x) | reinterpret_cast<size_t>(y)) % sizeof(Pack<T, VEC>) == 0;
    if (aligned && start + VEC <= n) {
        Pack<T, VEC> pack = *reinterpret_cast<const Pack<T, VEC>*>(x + start);
#pragma unroll
        for (int i = 0; i < VEC; ++i) pack.items[i] = apply(pack.items[i]);
        *reinterpret_cast<Pack<T, VEC>*>(y + start) = pack;
    } else {
        for (long long i = start; i < start + VEC && i < n; ++i) y[i] = apply(x[i]);
    }
}
