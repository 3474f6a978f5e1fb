// Kernels that are bounded by one thing each, for `tilec profile`.

extern "C" __global__ void copied(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];  // the memory of the device
}

extern "C" __global__ void copied_wide(float4* y, const float4* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];  // the memory of the device, with enough under way
}

extern "C" __global__ void conflicted(float* y, int rounds) {
    __shared__ float tile[32 * 32];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = y[i];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < rounds; ++k) sum += tile[(threadIdx.x * 32 + k) % 1024];  // all threads of a warp in one bank
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void waiting(float* y, const int* next, int rounds) {
    extern __shared__ float room[];  // so much of it that few warps fit
    int at = threadIdx.x;
    for (int k = 0; k < rounds; ++k) at = next[at];  // each read needs the one before it
    if (at < 0) room[threadIdx.x] = 1.0f;
    y[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<float>(at);
}

extern "C" __global__ void computed(float* y, int rounds) {
    float a = y[threadIdx.x], b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
    for (int k = 0; k < rounds; ++k) {
        a = a * a + 0.5f;  // arithmetic, four chains of it
        b = b * b + 0.5f;
        c = c * c + 0.5f;
        d = d * d + 0.5f;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}
