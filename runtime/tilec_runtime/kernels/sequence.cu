// Numbers in equal steps: of integers, whose arithmetic wraps, and of f64, rounded once to an element at the end.
#include "elements.cuh"

constexpr int kThreads = 256;
constexpr int kPack = 4;    // elements that are written in one piece
constexpr int kPacks = 4;  // per thread

/// start + i * step
extern "C" __global__ void __launch_bounds__(kThreads)
    integers(unsigned char* __restrict__ to, long long n, unsigned long long start, unsigned long long step, int code) {
    const bool aligned = elements::aligned<kPack>(to, code);
    long long i = static_cast<long long>(blockIdx.x) * kThreads * kPack * kPacks + threadIdx.x * kPack;
#pragma unroll 1
    for (int pack = 0; pack < kPacks; ++pack, i += kThreads * kPack) {
        if (i >= n) return;
        unsigned long long bits[kPack];
#pragma unroll
        for (int k = 0; k < kPack; ++k) bits[k] = start + (i + k) * step;
        elements::store<kPack>(to, code, i, n, aligned, bits);
    }
}

/// start + i * step, each operation rounded; but `last` at the end, and integer types take what is not above.
extern "C" __global__ void __launch_bounds__(kThreads)
    numbers(unsigned char* __restrict__ to, long long n, double start, double step, double last, int code) {
    const bool aligned = elements::aligned<kPack>(to, code), whole = elements::is_integer(code);
    long long i = static_cast<long long>(blockIdx.x) * kThreads * kPack * kPacks + threadIdx.x * kPack;
#pragma unroll 1
    for (int pack = 0; pack < kPacks; ++pack, i += kThreads * kPack) {
        if (i >= n) return;
        double numbers[kPack];
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
            const double number = __dadd_rn(__dmul_rn(__ll2double_rn(i + k), step), start);
            numbers[k] = i + k == n - 1 ? last : number;
            if (whole) numbers[k] = floor(numbers[k]);
        }
        unsigned long long bits[kPack];
        elements::encode(numbers, code, bits);
        elements::store<kPack>(to, code, i, n, aligned, bits);
    }
}
