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

/// Integers of 8 to 64 bits as i64 (or u64).
__device__ __forceinline__ void integers(const unsigned long long (&bits)[kPack], int code, unsigned long long (&numbers)[kPack]) {
    using Word = unsigned long long;
    if (code == elements::kBool) return elements::each(bits, numbers, [](Word x) { return Word(x != 0); });
    const int unused = 64 - (8 << elements::width(code));
    if (elements::is_signed(code))
        elements::each(bits, numbers, [=](Word x) { return static_cast<Word>(static_cast<long long>(x << unused) >> unused); });
    else
        elements::each(bits, numbers, [](Word x) { return x; });
}

template <int HELD>
__device__ __forceinline__ void converted(
    const typename Bits<HELD>::Type (&bits)[kPack], int target, int source, unsigned long long (&result)[kPack]) {
    if constexpr (HELD == kInteger) {
        unsigned long long numbers[kPack];
        integers(bits, source, numbers);
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
        converted<HELD>(bits, target, source, result);
        elements::store<kPack>(to, target, i, n, stores, result);
#pragma unroll
        for (int k = 0; k < kPack; ++k) bits[k] = coming[k];
        i = next;
    }
}
