// Philox 4x32-10, the counter-based generator of Random123, and the numbers that are made of its words. philox.py does the same with NumPy.
#pragma once

namespace philox {

struct Words {
    unsigned x[4];
};

/// One round: two products, and the words in their next places.
__device__ __forceinline__ Words round(Words c, unsigned key0, unsigned key1) {
    const unsigned long long a = 0xD2511F53ull * c.x[0];
    const unsigned long long b = 0xCD9E8D57ull * c.x[2];
    return {{static_cast<unsigned>(b >> 32) ^ c.x[1] ^ key0, static_cast<unsigned>(b), static_cast<unsigned>(a >> 32) ^ c.x[3] ^ key1,
             static_cast<unsigned>(a)}};
}

/// The four words of a counter (its upper half is 0) under a key.
__device__ __forceinline__ Words generate(unsigned long long counter, unsigned long long key) {
    unsigned key0 = static_cast<unsigned>(key), key1 = static_cast<unsigned>(key >> 32);
    Words words = {{static_cast<unsigned>(counter), static_cast<unsigned>(counter >> 32), 0u, 0u}};
#pragma unroll
    for (int i = 0; i < 10; ++i) {
        words = round(words, key0, key1);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return words;
}

/// Two words as one number.
__device__ __forceinline__ unsigned long long join(unsigned low, unsigned high) { return static_cast<unsigned long long>(high) << 32 | low; }

/// The square root of a number from 2^-23 to 2^6, rounded to nearest: what __fsqrt_rn does, without its branch for other numbers.
__device__ __forceinline__ float root(float x) {
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    const float near = __fmul_rn(x, inverse);
    return __fmaf_rn(__fmaf_rn(-near, near, x), __fmul_rn(inverse, 0.5f), near);
}

/// Two numbers of the standard normal distribution out of two words, by Box and Muller. Every operation rounds to nearest.
__device__ __forceinline__ float2 normal(unsigned first, unsigned second, float mean, float deviation) {
    // u = (first + 0.5) / 2^32, with 24 digits: from 2^-33 to 1 - 2^-24.
    const float u = __fmaf_rn(__uint2float_rz(first), 0x1p-32f, 0x1p-33f);
    // -2 log(u), out of its exponent and a polynomial of its digits between the roots of 1/2 and of 2.
    const unsigned bits = __float_as_uint(u);
    const unsigned exponent = (bits - 0x3F3504F3u) & 0xFF800000u;
    const float f = __fadd_rn(__uint_as_float(bits - exponent), -1.0f);
    float p = -0x1.6626eap-3f;
    p = __fmaf_rn(p, f, 0x1.26729ep-2f);
    p = __fmaf_rn(p, f, -0x1.322850p-2f);
    p = __fmaf_rn(p, f, 0x1.5329bep-2f);
    p = __fmaf_rn(p, f, -0x1.98b80ap-2f);
    p = __fmaf_rn(p, f, 0x1.0005a6p-1f);
    p = __fmaf_rn(p, f, -0x1.555790p-1f);
    p = __fmaf_rn(p, f, 0x1.fffff8p-1f);
    p = __fmaf_rn(p, f, -0x1.000000p+1f);
    const float square = __fmaf_rn(__int2float_rn(static_cast<int>(exponent)), -0x1.62e430p-23f, __fmul_rn(p, f));
    // The upper two bits of the other word choose the quarter of the circle, the rest the angle inside of it.
    const float radius = __uint_as_float(__float_as_uint(root(square)) ^ (second & 0x80000000u));
    const float t = __fmul_rn(__int2float_rn(static_cast<int>(second << 2)), 0x1p-31f);
    const float z = __fmul_rn(t, t);
    float sine = -0x1.2d9b7cp-15f;
    sine = __fmaf_rn(sine, z, 0x1.465ec4p-9f);
    sine = __fmaf_rn(sine, z, -0x1.4abbbap-4f);
    sine = __fmaf_rn(sine, z, 0x1.921fb6p-1f);
    sine = __fmul_rn(sine, t);
    float cosine = -0x1.4e5e6ep-12f;
    cosine = __fmaf_rn(cosine, z, 0x1.03af5ap-6f);
    cosine = __fmaf_rn(cosine, z, -0x1.3bd392p-2f);
    cosine = __fmaf_rn(cosine, z, 0x1.000000p+0f);
    const bool swapped = second & 0x40000000u;
    const float one = __fmul_rn(radius, swapped ? sine : cosine);
    const float two = __fmul_rn(radius, swapped ? cosine : sine);
    return {__fmaf_rn(one, deviation, mean), __fmaf_rn(two, deviation, mean)};
}

/// x * y + z, each rounded.
__device__ __forceinline__ double step(double x, double y, double z) { return __dadd_rn(__dmul_rn(x, y), z); }

/// The same in f64, out of two pairs of words, without fused operations: NumPy has none for f64.
__device__ __forceinline__ double2 normal(unsigned long long first, unsigned long long second, double mean, double deviation) {
    const double u = __dmul_rn(__ull2double_rn((first >> 12) * 2 + 1), 0x1p-53);
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(u));
    const unsigned long long exponent = (bits - 0x3FE6A09E667F3BCDull) & 0xFFF0000000000000ull;
    const double m = __longlong_as_double(static_cast<long long>(bits - exponent));
    // log(m) = 2 atanh(s), s = (m - 1) / (m + 1)
    const double s = __ddiv_rn(__dadd_rn(m, -1.0), __dadd_rn(m, 1.0)), q = __dmul_rn(s, s);
    double p = 4.0 / 23;
#pragma unroll
    for (int k = 21; k >= 1; k -= 2) p = step(p, q, 4.0 / k);
    const double octaves = __ll2double_rn(static_cast<long long>(exponent) >> 52);
    const double square = __dadd_rn(__dmul_rn(octaves, -0x1.62e42fefa39efp+0), -__dmul_rn(p, s));
    const double root = __dsqrt_rn(square), radius = second >> 63 ? -root : root;
    const double t = __dmul_rn(__ll2double_rn(static_cast<long long>(second << 2)), 0x1.921fb54442d18p-64);
    const double z = -__dmul_rn(t, t);
    double sine = 1.0, cosine = 1.0;  // Taylor's series, from the far end: x (1 - x^2 / 2 3 (1 - x^2 / 4 5 (1 - ...)))
#pragma unroll
    for (int k = 16; k >= 2; k -= 2) {
        sine = step(__dmul_rn(sine, z), 1.0 / (k * (k + 1)), 1.0);
        cosine = step(__dmul_rn(cosine, z), 1.0 / (k * (k - 1)), 1.0);
    }
    sine = __dmul_rn(sine, t);
    const bool swapped = second >> 62 & 1;
    const double one = __dmul_rn(radius, swapped ? sine : cosine), two = __dmul_rn(radius, swapped ? cosine : sine);
    return {step(one, deviation, mean), step(two, deviation, mean)};
}

}  // namespace philox
