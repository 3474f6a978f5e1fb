// Elements of one dtype as those of another, rounded once. An instance for each type that holds all numbers of its sources.
#include "elements.cuh"

constexpr int kThreads = 256;
constexpr int kPack = 4;   // elements that move in one piece
constexpr int kPacks = 4;  // per thread

enum Held { kInteger, kFloat32, kFloat64 };

template <int HELD>
struct Bits {
    using Type = unsigned long long;
};
template <>
struct Bits<kFloat32> {
    using Type = unsigned;
};

/// An integer of 8 to 64 bits as i64 (or u64).
__device__ __forceinline__ unsigned long long integer(unsigned long long bits, int code) {
    if (code == elements::kBool) return bits != 0;
    const int unused = 64 - (8 << elements::width(code));
    bits <<= unused;
    return elements::is_signed(code) ? static_cast<unsigned long long>(static_cast<long long>(bits) >> unused) : bits >> unused;
}

template <int HELD>
__device__ __forceinline__ unsigned long long converted(typename Bits<HELD>::Type word, int target, int source) {
    if constexpr (HELD == kInteger) return elements::encode(integer(word, source), target, source == elements::kU64);
    else if constexpr (HELD == kFloat64) return elements::encode(__longlong_as_double(static_cast<long long>(word)), target);
    else return elements::encode(source == elements::kF32 ? __uint_as_float(word) : elements::widen(word, source), target);
}

template <int HELD>
__global__ void __launch_bounds__(kThreads)
    convert(unsigned char* __restrict__ to, const unsigned char* __restrict__ from, long long n, int target, int source) {
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
#pragma unroll
        for (int k = 0; k < kPack; ++k) result[k] = converted<HELD>(bits[k], target, source);
        elements::store<kPack>(to, target, i, n, stores, result);
#pragma unroll
        for (int k = 0; k < kPack; ++k) bits[k] = coming[k];
        i = next;
    }
}
