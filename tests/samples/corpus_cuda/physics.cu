// Kernels that compute: options of finance, bodies that attract each other, a separable filter with its weights in constant memory.
constexpr float kSoft = 1e-2f;
constexpr int kRadius = 4;

__constant__ float kWeights[2 * kRadius + 1] = {0.02f, 0.05f, 0.12f, 0.2f, 0.22f, 0.2f, 0.12f, 0.05f, 0.02f};

__device__ __forceinline__ float normal_cdf(float d) { return 0.5f * erfcf(-d * rsqrtf(2.0f)); }

/// European options: call and put of each (price, strike, years).
extern "C" __global__ void options(float* __restrict__ call, float* __restrict__ put, const float* __restrict__ price, const float* __restrict__ strike,
                                   const float* __restrict__ years, float rate = 0.02f, float volatility = 0.3f, int n = 0) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float root = sqrtf(years[i]);
        const float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
        const float d2 = d1 - volatility * root, discount = expf(-rate * years[i]);
        const float one = normal_cdf(d1), two = normal_cdf(d2);
        call[i] = price[i] * one - strike[i] * discount * two;
        put[i] = strike[i] * discount * (1.0f - two) - price[i] * (1.0f - one);
    }
}

/// What all bodies (x, y, z, mass) pull on each; blocks share the bodies that they read.
extern "C" __global__ void forces(float3* __restrict__ pull, const float4* __restrict__ body, int n) {
    extern __shared__ float4 near[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 own = i < n ? body[i] : make_float4(0, 0, 0, 0);
    float3 sum = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += blockDim.x) {
        const int other = start + threadIdx.x;
        near[threadIdx.x] = other < n ? body[other] : make_float4(0, 0, 0, 0);  // without a mass, no pull
        __syncthreads();
        for (int j = 0; j < static_cast<int>(blockDim.x); ++j) {
            const float dx = near[j].x - own.x, dy = near[j].y - own.y, dz = near[j].z - own.z;
            const float distance = dx * dx + dy * dy + dz * dz + kSoft;
            const float inverse = rsqrtf(distance);
            const float scale = near[j].w * inverse * inverse * inverse;
            sum.x += dx * scale, sum.y += dy * scale, sum.z += dz * scale;
        }
        __syncthreads();
    }
    if (i < n) pull[i] = sum;
}

/// One direction of a separable filter along rows; beyond the ends there are zeros.
extern "C" __global__ void filter_rows(float* __restrict__ y, const float* __restrict__ x, int columns) {
    extern __shared__ float line[];
    const int first = blockIdx.x * blockDim.x - kRadius;
    const long long row = blockIdx.y * static_cast<long long>(columns);
    for (int t = threadIdx.x; t < static_cast<int>(blockDim.x) + 2 * kRadius; t += blockDim.x) {
        line[t] = first + t >= 0 && first + t < columns ? x[row + first + t] : 0.0f;
    }
    __syncthreads();
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w <= 2 * kRadius; ++w) sum += kWeights[w] * line[threadIdx.x + w];
    y[row + column] = sum;
}
