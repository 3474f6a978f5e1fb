// Elements of f4e2m1, two in a byte, from and to those of other dtypes, rounded once.
#include "elements.cuh"

constexpr int kThreads = 256;
constexpr int kPack = 4;   // elements that move in one piece: two bytes of packed ones
constexpr int kPacks = 4;  // per thread

// What a kernel holds numbers in, as in convert.cu.
enum Held { kInteger, kFloat32, kFloat64 };

// In place of a dtype: the bits of the elements as they are.
constexpr int kCodes = 16;

/// Numbers that hold enough of elements to round to four bits: what f64 has more is in the last digit, and large integers are too large.
template <int HELD>
__device__ __forceinline__ void numbers_of(const unsigned long long (&bits)[kPack], int source, float (&numbers)[kPack]) {
    if constexpr (HELD == kInteger) {
        unsigned long long whole[kPack];
        elements::integers(bits, source, whole);
        if (source == elements::kU64) elements::each(whole, numbers, [](unsigned long long x) { return __ull2float_rn(x); });
        else elements::each(whole, numbers, [](unsigned long long x) { return __ll2float_rn(static_cast<long long>(x)); });
    } else if constexpr (HELD == kFloat64) {
        elements::each(bits, numbers, [](unsigned long long x) { return elements::odd(__longlong_as_double(static_cast<long long>(x))); });
    } else {
        unsigned narrow[kPack];
        elements::each(bits, narrow, [](unsigned long long x) { return static_cast<unsigned>(x); });
        elements::widen(narrow, source, numbers);
    }
}

/// `n` is even, since elements fill their bytes.
template <int HELD>
__global__ void __launch_bounds__(kThreads)
    pack(unsigned char* __restrict__ to, const unsigned char* __restrict__ from, long long n, int source) {
    const bool loads = elements::aligned<kPack>(from, source), stores = reinterpret_cast<unsigned long long>(to) % 2 == 0;
    long long i = static_cast<long long>(blockIdx.x) * kThreads * kPack * kPacks + threadIdx.x * kPack;
#pragma unroll 1
    for (int k = 0; k < kPacks && i < n; ++k, i += kThreads * kPack) {
        unsigned long long bits[kPack], pairs[2];
        float numbers[kPack];
        elements::load<kPack>(from, source, i, n, loads, bits);
        numbers_of<HELD>(bits, source, numbers);
#pragma unroll
        for (int j = 0; j < 2; ++j) pairs[j] = elements::narrow_e2m1(numbers[2 * j]) | elements::narrow_e2m1(numbers[2 * j + 1]) << 4;
        elements::store<2>(to, elements::kU8, i / 2, n / 2, stores, pairs);
    }
}

/// To another dtype, or, as bytes, to the four bits themselves, which ml_dtypes has one of in a byte.
__global__ void __launch_bounds__(kThreads)
    unpack(unsigned char* __restrict__ to, const unsigned char* __restrict__ from, long long n, int target) {
    const int stored = target == kCodes ? elements::kU8 : target;
    const bool loads = reinterpret_cast<unsigned long long>(from) % 2 == 0, stores = elements::aligned<kPack>(to, stored);
    long long i = static_cast<long long>(blockIdx.x) * kThreads * kPack * kPacks + threadIdx.x * kPack;
#pragma unroll 1
    for (int k = 0; k < kPacks && i < n; ++k, i += kThreads * kPack) {
        unsigned pairs[2];
        float numbers[kPack];
        unsigned long long bits[kPack];
        elements::load<2>(from, elements::kU8, i / 2, n / 2, loads, pairs);
#pragma unroll
        for (int j = 0; j < kPack; ++j) bits[j] = pairs[j / 2] >> 4 * (j % 2) & 15u;
        if (target != kCodes) {
            elements::each(bits, numbers, [](unsigned long long b) { return elements::widen_e2m1(static_cast<unsigned>(b)); });
            elements::encode(numbers, target, bits);
        }
        elements::store<kPack>(to, stored, i, n, stores, bits);
    }
}
