// Elements of one dtype as those of another, rounded once. An instance for each type that holds all numbers of its sources.
#include "elements.cuh"

constexpr int kThreads = 256;
constexpr int kPack = 4;   // elements that move in one piece
constexpr int kPacks = 4;  // per thread

constexpr int kEach = kPack * kPacks;

// What a kernel holds numbers in; and one for those that lie there as f32 and become other floats, whose code knows both types.
enum Held { kInteger, kFloat32, kFloat64, kFromFloat32 };

template <int HELD>
struct Bits {
    using Type = unsigned long long;
};
template <>
struct Bits<kFloat32> {
    using Type = unsigned;
};

template <int HELD>
__device__ __forceinline__ void converted(
    const typename Bits<HELD>::Type (&bits)[kPack], int target, int source, unsigned long long (&result)[kPack]) {
    if constexpr (HELD == kInteger) {
        unsigned long long numbers[kPack];
        elements::integers(bits, source, numbers);
        elements::encode(numbers, target, source == elements::kU64, result);
    } else if constexpr (HELD == kFloat64) {
        double numbers[kPack];
        elements::each(bits, numbers, [](unsigned long long x) { return __longlong_as_double(static_cast<long long>(x)); });
        elements::encode(numbers, target, result);
    } else {
        float numbers[kPack];
        elements::widen(bits, source, numbers);
        elements::encode(numbers, target, result);
    }
}

/// Between any two types that one type holds.
template <int HELD>
__device__ __forceinline__ void general(
    unsigned char* __restrict__ to, const unsigned char* __restrict__ from, long long n, int target, int source) {
    using Word = typename Bits<HELD>::Type;
    const bool loads = elements::aligned<kPack>(from, source), stores = elements::aligned<kPack>(to, target);
    long long i = static_cast<long long>(blockIdx.x) * kThreads * kPack * kPacks + threadIdx.x * kPack;
    Word bits[kPack];
    elements::load<kPack>(from, source, i, n, loads, bits);
#pragma unroll 1
    for (int pack = 0; pack < kPacks && i < n; ++pack) {
        const long long next = i + kThreads * kPack;
        Word coming[kPack];  // on its way while these are converted
        if (pack + 1 < kPacks) elements::load<kPack>(from, source, next, n, loads, coming);
        unsigned long long result[kPack];
        converted<HELD>(bits, target, source, result);
        elements::store<kPack>(to, target, i, n, stores, result);
#pragma unroll
        for (int k = 0; k < kPack; ++k) bits[k] = coming[k];
        i = next;
    }
}

/// From f32 to one type: a thread's loads are all on their way before the first of them is converted.
template <int TARGET, typename T>
__device__ __forceinline__ void narrowed(unsigned char* __restrict__ to, const unsigned char* __restrict__ from, long long n) {
    constexpr int kWide = sizeof(T) == 8 ? 2 : kPack, kCount = kEach / kWide;
    const long long first = static_cast<long long>(blockIdx.x) * kThreads * kEach, end = first + kThreads * kEach;
    const float* source = reinterpret_cast<const float*>(from);
    if (end <= n && elements::aligned<kWide>(from, elements::kF32) && elements::aligned<kWide>(to, TARGET)) {
        float numbers[kCount][kWide];
#pragma unroll
        for (int k = 0; k < kCount; ++k)
            elements::load_as<float, kWide>(source, first + (k * kThreads + threadIdx.x) * kWide, n, true, numbers[k]);
#pragma unroll
        for (int k = 0; k < kCount; ++k) {
            unsigned long long bits[kWide];
            elements::encode(numbers[k], TARGET, bits);
            elements::store_as<T, kWide>(to, first + (k * kThreads + threadIdx.x) * kWide, n, true, bits);
        }
        return;
    }
#pragma unroll 1
    for (long long i = first + threadIdx.x; i < min(end, n); i += kThreads) {
        const float number[1] = {source[i]};
        unsigned long long bits[1];
        elements::encode(number, TARGET, bits);
        reinterpret_cast<T*>(to)[i] = static_cast<T>(bits[0]);
    }
}

__device__ __forceinline__ void narrowed(
    unsigned char* __restrict__ to, const unsigned char* __restrict__ from, long long n, int target) {
    switch (target) {
        case elements::kF16: return narrowed<elements::kF16, unsigned short>(to, from, n);
        case elements::kBF16: return narrowed<elements::kBF16, unsigned short>(to, from, n);
        case elements::kF64: return narrowed<elements::kF64, unsigned long long>(to, from, n);
        case elements::kF8E4M3: return narrowed<elements::kF8E4M3, unsigned char>(to, from, n);
        default: return narrowed<elements::kF8E5M2, unsigned char>(to, from, n);
    }
}

template <int HELD>
__global__ void __launch_bounds__(kThreads)
    convert(unsigned char* __restrict__ to, const unsigned char* __restrict__ from, long long n, int target, int source) {
    if constexpr (HELD == kFromFloat32) narrowed(to, from, n, target);
    else general<HELD>(to, from, n, target, source);
}
