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

/// The number that the bits of a small float stand for; float32 has them all. NaN may be any one.
__device__ __forceinline__ float widen(unsigned bits, int code) {
    switch (code) {
        case kF16: return widen16(bits);
        case kBF16: return __uint_as_float(bits << 16);
        case kF8E5M2: return widen16(bits << 8);
        // As a number of f16, whose exponent's bias is 8 more.
        case kF8E4M3: return (bits & 0x7Fu) == 0x7Fu ? nan32() : widen16((bits & 0x80u) << 8 | (bits & 0x7Fu) << 7) * 256.0f;
        default: return bits == 0xFFu ? nan32() : bits ? __uint_as_float(bits << 23) : 0x1p-127f;
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

/// The bits of the nearest small float. `number` may have been rounded to odd.
__device__ __forceinline__ unsigned narrow(float number, int code) {
    const unsigned bits = __float_as_uint(number), size = bits & 0x7FFFFFFFu, sign = bits >> 24 & 0x80u;
    const bool missing = size > 0x7F800000u;
    switch (code) {
        case kF16: return missing ? 0x7E00u : narrow16(number);
        case kBF16: return missing ? 0x7FC0u : narrow_brain(number);
        case kF8E4M3: {
            // NaN follows the largest number, and what is beyond that becomes NaN.
            const unsigned found = cut<3, 7>(size, 0x7Fu);
            return missing || found == 0x7Fu ? 0x7Fu : found | sign;
        }
        case kF8E5M2: return missing ? 0x7Eu : cut<2, 15>(size, 0x7Cu) | sign;
        default:
            // Powers of two, the upper one of two that are as near; what is not above 0 has none.
            if (bits - 1 >= 0x7F800000u - 1) return 0xFFu;
            return size < 0x00600000u ? 0u : size < 0x00800000u ? 1u : (size + 0x00400000u) >> 23;
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
__device__ __forceinline__ long long clipped(double number, int code) {
    if (!(number == number)) return 0;
    if (code == kU64) return static_cast<long long>(__double2ull_rz(number));
    const int bits = 8 << width(code);
    const long long top = is_signed(code) ? static_cast<long long>(~0ull >> (65 - bits)) : static_cast<long long>(~0ull >> (64 - bits));
    const long long found = __double2ll_rz(number);
    return max(min(found, top), is_signed(code) ? -top - 1 : 0ll);
}

/// The bits of a number of f64 as an element.
__device__ __forceinline__ unsigned long long encode(double number, int code) {
    switch (code) {
        case kBool: return number != 0.0;
        case kF64: return number == number ? static_cast<unsigned long long>(__double_as_longlong(number)) : 0x7FF8000000000000ull;
        case kF32: return number == number ? __float_as_uint(__double2float_rn(number)) : 0x7FC00000u;
        case kF16:
        case kBF16:
        case kF8E4M3:
        case kF8E5M2:
        case kF8E8M0: return narrow(odd(number), code);
        default: return static_cast<unsigned long long>(clipped(number, code));
    }
}

/// The same of a number that float32 has.
__device__ __forceinline__ unsigned long long encode(float number, int code) {
    switch (code) {
        case kF16:
        case kBF16:
        case kF8E4M3:
        case kF8E5M2:
        case kF8E8M0: return narrow(number, code);
        case kF32: return number == number ? __float_as_uint(number) : 0x7FC00000u;
        default: return encode(static_cast<double>(number), code);
    }
}

/// The same of an integer: i64, or u64 where `wide` says so. Integer types take its low bits.
__device__ __forceinline__ unsigned long long encode(unsigned long long number, int code, bool wide) {
    if (code == kBool) return number != 0;
    if (is_integer(code)) return number;
    const bool negative = !wide && number >> 63;
    const unsigned long long size = negative ? 0 - number : number;
    switch (code) {
        case kF64: return static_cast<unsigned long long>(__double_as_longlong(__ull2double_rn(size))) | (negative ? 1ull << 63 : 0);
        case kF32: return __float_as_uint(__ull2float_rn(size)) | (negative ? 1u << 31 : 0);
        default: return narrow(__uint_as_float(__float_as_uint(odd(size)) | (negative ? 1u << 31 : 0)), code);
    }
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
