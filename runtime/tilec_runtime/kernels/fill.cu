// One value over and over, and one value along a diagonal.

constexpr int kThreads = 256;
constexpr int kPacks = 8;  // of 16 bytes, per thread

/// Fill bytes with a pattern of 8 bytes that repeats. It is aligned to addresses, and so are elements of 1, 2, 4 and 8 bytes.
extern "C" __global__ void __launch_bounds__(kThreads) fill(unsigned char* __restrict__ to, long long bytes, unsigned long long pattern) {
    const unsigned long long first = reinterpret_cast<unsigned long long>(to), end = first + bytes;
    const ulonglong2 pack = {pattern, pattern};
    unsigned long long place = (first & ~15ull) + (static_cast<unsigned long long>(blockIdx.x) * kThreads * kPacks + threadIdx.x) * 16;
    if (place >= first && place + (kPacks - 1) * kThreads * 16 + 16 <= end) {
#pragma unroll
        for (int i = 0; i < kPacks; ++i) *reinterpret_cast<ulonglong2*>(place + i * kThreads * 16) = pack;
        return;
    }
#pragma unroll 1
    for (int i = 0; i < kPacks; ++i, place += kThreads * 16) {
        if (place >= first && place + 16 <= end) {
            *reinterpret_cast<ulonglong2*>(place) = pack;
            continue;
        }
#pragma unroll 1
        for (unsigned long long byte = max(place, first); byte < min(place + 16, end); ++byte)
            *reinterpret_cast<unsigned char*>(byte) = static_cast<unsigned char>(pattern >> byte % 8 * 8);
    }
}

/// Write one element of 2^width bytes at every `step`-th place.
extern "C" __global__ void __launch_bounds__(kThreads)
    diagonal(unsigned char* __restrict__ to, long long count, long long step, unsigned long long bits, int width) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= count) return;
    unsigned char* place = to + (i * step << width);
    switch (width) {
        case 0: *place = static_cast<unsigned char>(bits); break;
        case 1: *reinterpret_cast<unsigned short*>(place) = static_cast<unsigned short>(bits); break;
        case 2: *reinterpret_cast<unsigned*>(place) = static_cast<unsigned>(bits); break;
        default: *reinterpret_cast<unsigned long long*>(place) = bits;
    }
}
