// What elements are: codes of dtypes, and conversions that round once, to nearest even. elements.py does the same with NumPy.
#pragma once

namespace elements {

// In the order of tilec's dtypes.
enum Code { kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64, kF8E4M3, kF8E5M2, kF8E8M0 };

/// Bytes of an element, as a power of two.
__device__ __forceinline__ int width(int code) {
    // Two bits for each code, the first one lowest.
    return 0x03979390u >> 2 * code & 3;
}

__device__ __forceinline__ bool is_signed(int code) { return code >= kI8 && code <= kI64; }
__device__ __forceinline__ bool is_integer(int code) { return code <= kU64; }

__device__ __forceinline__ float nan32() { return __uint_as_float(0x7FC00000u); }

__device__ __forceinline__ float widen16(unsigned bits) {
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(static_cast<unsigned short>(bits)));
    return number;
}

/// A function of each of V elements.
template <int V, typename From, typename To, typename Function>
__device__ __forceinline__ void each(const From (&from)[V], To (&to)[V], Function function) {
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] = function(from[i]);
}

/// The numbers that bits of f32 or of a small float stand for; float32 has them all. NaN may be any one.
template <int V>
__device__ __forceinline__ void widen(const unsigned (&bits)[V], int code, float (&numbers)[V]) {
    switch (code) {
        case kF32: return each(bits, numbers, [](unsigned b) { return __uint_as_float(b); });
        case kF16: return each(bits, numbers, [](unsigned b) { return widen16(b); });
        case kBF16: return each(bits, numbers, [](unsigned b) { return __uint_as_float(b << 16); });
        case kF8E5M2: return each(bits, numbers, [](unsigned b) { return widen16(b << 8); });
        case kF8E4M3:
            // As a number of f16, whose exponent's bias is 8 more.
            return each(bits, numbers, [](unsigned b) {
                return (b & 0x7Fu) == 0x7Fu ? nan32() : widen16((b & 0x80u) << 8 | (b & 0x7Fu) << 7) * 256.0f;
            });
        default: return each(bits, numbers, [](unsigned b) { return b == 0xFFu ? nan32() : b ? __uint_as_float(b << 23) : 0x1p-127f; });
    }
}

/// The bits of the nearest float with fewer digits and another bias, by integers; what is too large becomes `beyond`.
template <int DIGITS, int BIAS>
__device__ __forceinline__ unsigned cut(unsigned size, unsigned beyond) {
    constexpr int kShift = 23 - DIGITS;
    // Below the normal range: adding a number whose last place is the least small float rounds.
    constexpr unsigned kLast = (127u + kShift + 1 - BIAS) << 23;
    if (size < (128u - BIAS) << 23) return __float_as_uint(__fadd_rn(__uint_as_float(size), __uint_as_float(kLast))) - kLast;
    return min((size + (size >> kShift & 1) + ((1u << (kShift - 1)) - 1) - ((127u - BIAS) << 23)) >> kShift, beyond);
}

/// The bits of the nearest f16: infinite where the number is too large. It is not NaN.
__device__ __forceinline__ unsigned narrow16(float number) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(number));
    return bits;
}

/// The same of bf16.
__device__ __forceinline__ unsigned narrow_brain(float number) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(number));
    return bits;
#else
    const unsigned bits = __float_as_uint(number), size = bits & 0x7FFFFFFFu;
    return cut<7, 127>(size, 0x7F80u) | (bits & 0x80000000u) >> 16;
#endif
}

__device__ __forceinline__ unsigned narrow_e4m3(float number) {
    // NaN follows the largest number, and what is beyond that becomes NaN: from half a step above 448 on, a tie that is rounded to 448.
#if __CUDA_ARCH__ >= 900
    unsigned short bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(number));
    return fabsf(number) <= 464.0f ? bits : 0x7Fu;
#else
    const unsigned bits = __float_as_uint(number), found = cut<3, 7>(bits & 0x7FFFFFFFu, 0x7Fu);
    return found == 0x7Fu ? found : found | (bits >> 24 & 0x80u);
#endif
}

__device__ __forceinline__ unsigned narrow_e5m2(float number) {
    const unsigned bits = __float_as_uint(number), size = bits & 0x7FFFFFFFu;
#if __CUDA_ARCH__ >= 900
    // Infinity follows 57344, and a tie is rounded to it.
    unsigned short found;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(found) : "f"(0.0f), "f"(number));
    return size > 0x7F800000u ? 0x7Eu : fabsf(number) < 61440.0f ? found : 0x7Cu | (bits >> 24 & 0x80u);
#else
    return size > 0x7F800000u ? 0x7Eu : cut<2, 15>(size, 0x7Cu) | (bits >> 24 & 0x80u);
#endif
}

/// Powers of two, the upper one of two that are as near; what is not above 0 has none.
__device__ __forceinline__ unsigned narrow_e8m0(float number) {
    const unsigned bits = __float_as_uint(number);
    if (bits - 1 >= 0x7F800000u - 1) return 0xFFu;
    return bits < 0x00600000u ? 0u : bits < 0x00800000u ? 1u : (bits + 0x00400000u) >> 23;
}

/// Four bits: the largest number where it is too large, and for NaN, which there is none of; as the instruction of sm_100 gives them.
__device__ __forceinline__ unsigned narrow_e2m1(float number) {
    const unsigned bits = __float_as_uint(number), size = bits & 0x7FFFFFFFu;
    return size > 0x7F800000u ? 7u : cut<1, 1>(size, 7u) | (bits >> 28 & 8u);
}

/// What four bits stand for: a number of f16, whose exponent's bias is 14 more.
__device__ __forceinline__ float widen_e2m1(unsigned bits) { return widen16((bits & 8u) << 12 | (bits & 7u) << 9) * 16384.0f; }

/// The bits of the nearest small floats. Numbers may have been rounded to odd.
template <int V, typename Bits>
__device__ __forceinline__ void narrow(const float (&numbers)[V], int code, Bits (&bits)[V]) {
    switch (code) {
        case kF16: return each(numbers, bits, [](float x) { return x == x ? narrow16(x) : 0x7E00u; });
        case kBF16: return each(numbers, bits, [](float x) { return x == x ? narrow_brain(x) : 0x7FC0u; });
        case kF8E4M3: return each(numbers, bits, [](float x) { return narrow_e4m3(x); });
        case kF8E5M2: return each(numbers, bits, [](float x) { return narrow_e5m2(x); });
        default: return each(numbers, bits, [](float x) { return narrow_e8m0(x); });
    }
}

/// Rounded to float32 towards zero, with the last digit set where anything was dropped: a later rounding sees that.
__device__ __forceinline__ float odd(double number) {
    const float cut = __double2float_rz(number);
    return __uint_as_float(__float_as_uint(cut) | (static_cast<double>(cut) != number ? 1u : 0u));
}
__device__ __forceinline__ float odd(unsigned long long number) {
    const float cut = __ull2float_rz(number);
    return __uint_as_float(__float_as_uint(cut) | (__float2ull_rz(cut) != number ? 1u : 0u));
}

/// Towards zero into an integer type of 8 to 64 bits; what is too large becomes the nearest bound, NaN becomes 0.
template <int V, typename Number, typename Bits>
__device__ __forceinline__ void clip(const Number (&numbers)[V], int code, Bits (&bits)[V]) {
    if (code == kU64) return each(numbers, bits, [](Number x) { return x == x ? __double2ull_rz(x) : 0ull; });
    const int unused = (is_signed(code) ? 65 : 64) - (8 << width(code));
    const long long top = static_cast<long long>(~0ull >> unused), bottom = is_signed(code) ? -top - 1 : 0;
    each(numbers, bits, [=](Number x) { return x == x ? static_cast<unsigned long long>(max(min(__double2ll_rz(x), top), bottom)) : 0ull; });
}

/// The bits of numbers of f64 as elements.
template <int V>
__device__ __forceinline__ void encode(const double (&numbers)[V], int code, unsigned long long (&bits)[V]) {
    if (code == kBool) return each(numbers, bits, [](double x) { return x != 0.0; });
    if (is_integer(code)) return clip(numbers, code, bits);
    if (code == kF64)
        return each(numbers, bits, [](double x) { return x == x ? static_cast<unsigned long long>(__double_as_longlong(x)) : 0x7FF8ull << 48; });
    if (code == kF32) return each(numbers, bits, [](double x) { return x == x ? __float_as_uint(__double2float_rn(x)) : 0x7FC00000u; });
    float cut[V];
    each(numbers, cut, [](double x) { return odd(x); });
    narrow(cut, code, bits);
}

/// The same of numbers that float32 has.
template <int V>
__device__ __forceinline__ void encode(const float (&numbers)[V], int code, unsigned long long (&bits)[V]) {
    if (code == kBool) return each(numbers, bits, [](float x) { return x != 0.0f; });
    if (is_integer(code)) return clip(numbers, code, bits);
    if (code == kF64)
        return each(numbers, bits, [](float x) {
            return x == x ? static_cast<unsigned long long>(__double_as_longlong(static_cast<double>(x))) : 0x7FF8ull << 48;
        });
    if (code == kF32) return each(numbers, bits, [](float x) { return x == x ? __float_as_uint(x) : 0x7FC00000u; });
    narrow(numbers, code, bits);
}

/// The same of integers: i64, or u64 where `wide` says so. Integer types take their low bits.
template <int V>
__device__ __forceinline__ void encode(const unsigned long long (&numbers)[V], int code, bool wide, unsigned long long (&bits)[V]) {
    using Word = unsigned long long;
    if (code == kBool) return each(numbers, bits, [](Word x) { return x != 0; });
    if (is_integer(code)) return each(numbers, bits, [](Word x) { return x; });
    Word signs[V], sizes[V];
    each(numbers, signs, [=](Word x) { return wide ? 0 : x >> 63; });
#pragma unroll
    for (int i = 0; i < V; ++i) sizes[i] = signs[i] ? 0 - numbers[i] : numbers[i];
    if (code == kF64) {
        each(sizes, bits, [](Word x) { return static_cast<Word>(__double_as_longlong(__ull2double_rn(x))); });
#pragma unroll
        for (int i = 0; i < V; ++i) bits[i] |= signs[i] << 63;
        return;
    }
    float found[V];
    if (code == kF32) each(sizes, found, [](Word x) { return __ull2float_rn(x); });
    else each(sizes, found, [](Word x) { return odd(x); });
#pragma unroll
    for (int i = 0; i < V; ++i) found[i] = signs[i] ? -found[i] : found[i];
    if (code == kF32) each(found, bits, [](float x) { return __float_as_uint(x); });
    else narrow(found, code, bits);
}

/// Integers of 8 to 64 bits as i64 (or u64).
template <int V>
__device__ __forceinline__ void integers(const unsigned long long (&bits)[V], int code, unsigned long long (&numbers)[V]) {
    using Word = unsigned long long;
    if (code == kBool) return each(bits, numbers, [](Word x) { return Word(x != 0); });
    const int unused = 64 - (8 << width(code));
    if (is_signed(code))
        each(bits, numbers, [=](Word x) { return static_cast<Word>(static_cast<long long>(x << unused) >> unused); });
    else
        each(bits, numbers, [](Word x) { return x; });
}

/// V elements that move in one piece.
template <typename T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
    T items[V];
};

template <typename T, int V, typename Bits>
__device__ __forceinline__ void load_as(const void* from, long long start, long long end, bool whole, Bits* bits) {
    const T* place = static_cast<const T*>(from) + start;
    if (whole) {
        const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(place);
#pragma unroll
        for (int i = 0; i < V; ++i) bits[i] = pack.items[i];
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i) bits[i] = start + i < end ? place[i] : T(0);
    }
}

template <typename T, int V, typename Bits>
__device__ __forceinline__ void store_as(void* to, long long start, long long end, bool whole, const Bits* bits) {
    T* place = static_cast<T*>(to) + start;
    if (whole) {
        Pack<T, V> pack;
#pragma unroll
        for (int i = 0; i < V; ++i) pack.items[i] = static_cast<T>(bits[i]);
        *reinterpret_cast<Pack<T, V>*>(place) = pack;
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i)
            if (start + i < end) place[i] = static_cast<T>(bits[i]);
    }
}

/// Bits of the V elements from `start` on; in one piece where `aligned` allows, and none from `end` on.
template <int V, typename Bits>
__device__ __forceinline__ void load(const void* from, int code, long long start, long long end, bool aligned, Bits* bits) {
    const bool whole = aligned && start + V <= end;
    switch (width(code)) {
        case 0: return load_as<unsigned char, V>(from, start, end, whole, bits);
        case 1: return load_as<unsigned short, V>(from, start, end, whole, bits);
        case 2: return load_as<unsigned, V>(from, start, end, whole, bits);
        default: return load_as<unsigned long long, V>(from, start, end, whole, bits);
    }
}

template <int V, typename Bits>
__device__ __forceinline__ void store(void* to, int code, long long start, long long end, bool aligned, const Bits* bits) {
    const bool whole = aligned && start + V <= end;
    switch (width(code)) {
        case 0: return store_as<unsigned char, V>(to, start, end, whole, bits);
        case 1: return store_as<unsigned short, V>(to, start, end, whole, bits);
        case 2: return store_as<unsigned, V>(to, start, end, whole, bits);
        default: return store_as<unsigned long long, V>(to, start, end, whole, bits);
    }
}

/// Whether packs of V elements at an address are aligned.
template <int V>
__device__ __forceinline__ bool aligned(const void* address, int code) {
    return reinterpret_cast<unsigned long long>(address) % min(V << width(code), 16) == 0;
}

}  // namespace elements
