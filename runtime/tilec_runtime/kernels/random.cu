// Random numbers: element i comes out of the words of counter i / 4 (of i / 2 for f64), whatever the launch.
#include "elements.cuh"
#include "philox.cuh"

constexpr int kThreads = 256;
constexpr int kCounters = 4;  // per thread

/// The bits of a number that is no NaN.
template <int CODE>
__device__ __forceinline__ unsigned bits_of(float number) {
    if (CODE == elements::kF32) return __float_as_uint(number);
    return CODE == elements::kF16 ? elements::narrow16(number) : elements::narrow_brain(number);
}

/// A number in [0, 1) with as many digits as the type has: the upper bits of a word.
template <int CODE>
__device__ __forceinline__ float uniform_number(unsigned word) {
    constexpr int kDigits = CODE == elements::kF32 ? 24 : CODE == elements::kF16 ? 11 : 8;
    return __fmul_rn(__uint2float_rn(word >> (32 - kDigits)), __uint_as_float((127 - kDigits) << 23));
}

/// The bits of the elements of a counter.
template <int CODE, bool NORMAL>
struct Maker {
    static constexpr int kCount = 4;
    using Word = unsigned;
    float mean, deviation;

    __device__ __forceinline__ void make(const philox::Words& words, unsigned (&bits)[4]) const {
        if constexpr (NORMAL) {
#pragma unroll
            for (int pair = 0; pair < 4; pair += 2) {
                const float2 found = philox::normal(words.x[pair], words.x[pair + 1], mean, deviation);
                bits[pair] = bits_of<CODE>(found.x);
                bits[pair + 1] = bits_of<CODE>(found.y);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) bits[i] = bits_of<CODE>(uniform_number<CODE>(words.x[i]));
        }
    }
};

template <bool NORMAL>
struct Maker<elements::kF64, NORMAL> {
    static constexpr int kCount = 2;
    using Word = unsigned long long;
    double mean, deviation;

    __device__ __forceinline__ void make(const philox::Words& words, unsigned long long (&bits)[2]) const {
        const unsigned long long one = philox::join(words.x[0], words.x[1]), two = philox::join(words.x[2], words.x[3]);
        double2 found;
        if constexpr (NORMAL) found = philox::normal(one, two, mean, deviation);
        else found = {__dmul_rn(__ull2double_rn(one >> 11), 0x1p-53), __dmul_rn(__ull2double_rn(two >> 11), 0x1p-53)};
        bits[0] = static_cast<unsigned long long>(__double_as_longlong(found.x));
        bits[1] = static_cast<unsigned long long>(__double_as_longlong(found.y));
    }
};

/// Write n elements. `to` is aligned to 16 bytes.
template <int CODE, bool NORMAL>
__device__ __forceinline__ void write(unsigned char* to, long long n, unsigned long long seed, const Maker<CODE, NORMAL>& maker) {
    using Made = Maker<CODE, NORMAL>;
    long long counter = static_cast<long long>(blockIdx.x) * kThreads * kCounters + threadIdx.x;
#pragma unroll(CODE == elements::kF64 ? 1 : kCounters)
    for (int i = 0; i < kCounters; ++i, counter += kThreads) {
        if (counter * Made::kCount >= n) return;
        typename Made::Word bits[Made::kCount];
        maker.make(philox::generate(static_cast<unsigned long long>(counter), seed), bits);
        elements::store<Made::kCount>(to, CODE, counter * Made::kCount, n, true, bits);
    }
}

/// Uniform in [0, 1).
template <int CODE>
__global__ void __launch_bounds__(kThreads) uniform(unsigned char* __restrict__ to, long long n, unsigned long long seed) {
    write<CODE, false>(to, n, seed, {});
}

/// Normal; mean and deviation are numbers of f32, but for f64.
template <int CODE>
__global__ void __launch_bounds__(kThreads)
    normal(unsigned char* __restrict__ to, long long n, unsigned long long seed, double mean, double deviation) {
    if constexpr (CODE == elements::kF64) write<CODE, true>(to, n, seed, {mean, deviation});
    else write<CODE, true>(to, n, seed, {static_cast<float>(mean), static_cast<float>(deviation)});
}
